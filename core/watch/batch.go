package watch

// note gathers a change, if it is one that the watch tells.
func (t *Watch) note(path string, kind Kind) {
	if t.only != "" && path != t.only || t.hides(path) || !t.tells(path) {
		return
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.noteLocked(path, kind)
}

func (t *Watch) noteLocked(path string, kind Kind) {
	if t.over || t.rescan {
		return
	}
	before, known := t.changes[path]
	switch {
	case !known && len(t.changes) >= MaxBatch:
		t.lostLocked()
		return
	case !known:
		t.order = append(t.order, path)
	case before == Added && kind == Deleted:
		kind = "" // came and went: nothing to tell
	case before == Added:
		kind = Added
	case before == Deleted && kind == Added:
		kind = Updated
	}
	t.changes[path] = kind
	t.w.dueLocked()
}

// lost notes that what happened is not known, only that something did.
func (t *Watch) lost() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.lostLocked()
}

func (t *Watch) lostLocked() {
	if t.over || t.rescan {
		return
	}
	t.rescan = true
	t.order, t.changes = nil, map[string]Kind{}
	t.w.stats.Rescans++
	t.w.dueLocked()
}

// dueLocked lets the batches go out a moment after their first change.
func (w *Watcher) dueLocked() {
	if !w.waking {
		w.waking = true
		w.due.Reset(settle)
	}
}

// deliver hands out what has gathered.
func (w *Watcher) deliver() {
	w.mu.Lock()
	w.waking = false
	type parcel struct {
		to    *Watch
		batch []Change
	}
	var out []parcel
	for t := range w.watches {
		var batch []Change
		if t.rescan {
			batch = []Change{{t.o.Root, Updated}}
		}
		for _, path := range t.order {
			if kind := t.changes[path]; kind != "" {
				batch = append(batch, Change{path, kind})
			}
		}
		t.rescan, t.order = false, nil
		clear(t.changes)
		if len(batch) > 0 {
			out = append(out, parcel{t, batch})
		}
	}
	w.mu.Unlock()
	for _, p := range out {
		p.to.o.Deliver(p.batch)
	}
}
