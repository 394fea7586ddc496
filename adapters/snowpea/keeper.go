package snowpea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// keeper stores what this front can make again from the log but not quickly:
// marks of the numbering and usage rows. Nobody waits for it but those who
// read usage; what a crash takes is made again when the session is opened.
type keeper struct {
	kv  host.KV
	log *slog.Logger

	mu      sync.Mutex
	marks   map[string][]byte // by key; the newest value counts
	rows    map[id.ID][]usageRow
	dropped []id.ID       // sessions whose values go
	idle    chan struct{} // closed while nothing waits
	wake    chan struct{}
}

// usageRow is one usage report. Rows of one session with equal Seq are the same.
type usageRow struct {
	Seq      uint64    `json:"seq"`
	At       time.Time `json:"at"`
	Chat     string    `json:"chat"` // as clients spell it
	Input    int64     `json:"in"`
	Output   int64     `json:"out"`
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
}

func newKeeper(kv host.KV, log *slog.Logger) *keeper {
	k := &keeper{kv: kv, log: log, marks: map[string][]byte{}, rows: map[id.ID][]usageRow{},
		idle: make(chan struct{}), wake: make(chan struct{}, 1)}
	close(k.idle)
	return k
}

// The keys. A session's newest mark and those along its log.
func lastKey(s id.ID) string             { return "last/" + s.String() }
func markPrefix(s id.ID) string          { return "mark/" + s.String() + "/" }
func markKey(s id.ID, seq uint64) string { return fmt.Sprintf("%s%016x", markPrefix(s), seq) }
func usagePrefix(s id.ID) string         { return "usage/" + s.String() + "/" }
func usageKey(s id.ID, q uint64) string  { return fmt.Sprintf("%s%016x", usagePrefix(s), q) }

// put queues a mark.
func (k *keeper) put(key string, mark []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.marks[key] = mark
	k.busy()
}

// spend queues a usage row.
func (k *keeper) spend(s id.ID, r usageRow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows[s] = append(k.rows[s], r)
	k.busy()
}

// drop queues the removal of all that is stored of a session.
func (k *keeper) drop(s id.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, s)
	k.dropped = append(k.dropped, s)
	k.busy()
}

// busy notes that something waits; the caller holds mu.
func (k *keeper) busy() {
	select {
	case <-k.idle:
		k.idle = make(chan struct{})
	default:
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run writes until ctx ends, then what still waits.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case <-k.wake:
			k.write(context.WithoutCancel(ctx))
		case <-ctx.Done():
			k.write(context.WithoutCancel(ctx))
			return
		}
	}
}

// write stores all that waits: rows before marks, so that a stored mark never
// covers a row that is not.
func (k *keeper) write(ctx context.Context) {
	for {
		k.mu.Lock()
		rows, marks, dropped := k.rows, k.marks, k.dropped
		if len(rows)+len(marks)+len(dropped) == 0 {
			select {
			case <-k.idle:
			default:
				close(k.idle)
			}
			k.mu.Unlock()
			return
		}
		k.rows, k.marks, k.dropped = map[id.ID][]usageRow{}, map[string][]byte{}, nil
		k.mu.Unlock()
		for s, list := range rows {
			for len(list) > 0 {
				n := min(len(list), usageBatch)
				b, err := json.Marshal(list[:n])
				if err == nil {
					err = k.kv.Set(ctx, usageKey(s, list[0].Seq), b)
				}
				k.report("usage", err)
				list = list[n:]
			}
		}
		for key, mark := range marks {
			k.report("numbering", k.kv.Set(ctx, key, mark))
		}
		for _, s := range dropped {
			k.report("deletion", k.erase(ctx, s))
		}
	}
}

func (k *keeper) report(what string, err error) {
	if err != nil {
		k.log.Warn("A value that can be made again could not be stored", "what", what, "err", err)
	}
}

func (k *keeper) erase(ctx context.Context, s id.ID) error {
	keys := []string{lastKey(s)}
	for _, prefix := range []string{markPrefix(s), usagePrefix(s)} {
		kvs, err := k.all(ctx, prefix)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			keys = append(keys, kv.Key)
		}
	}
	return k.kv.Delete(ctx, keys...)
}

// all reads every pair whose key begins with prefix, in order.
func (k *keeper) all(ctx context.Context, prefix string) ([]store.KV, error) {
	var out []store.KV
	for after := ""; ; after = out[len(out)-1].Key {
		kvs, err := k.kv.List(ctx, prefix, after, keeperPage)
		if err != nil {
			return nil, err
		}
		out = append(out, kvs...)
		if len(kvs) < keeperPage {
			return out, nil
		}
	}
}

// settle waits until everything queued so far is stored.
func (k *keeper) settle(ctx context.Context) error {
	k.mu.Lock()
	idle := k.idle
	k.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// last is the newest mark of a session; false when there is none.
func (k *keeper) last(ctx context.Context, s id.ID) (*fold, bool) {
	key := lastKey(s)
	k.mu.Lock()
	b, waiting := k.marks[key]
	k.mu.Unlock()
	if !waiting {
		var err error
		if b, err = k.kv.Get(ctx, key); err != nil {
			if !errors.Is(err, store.ErrNotFound) {
				k.report("numbering", err)
			}
			return nil, false
		}
	}
	x, err := decodeMark(b)
	if err != nil {
		k.report("numbering", err)
		return nil, false
	}
	return x, true
}

// mark is the newest mark of a session that fits, or an empty fold.
func (k *keeper) mark(ctx context.Context, s id.ID, fits func(*fold) bool) (*fold, error) {
	best := newFold(s)
	if x, ok := k.last(ctx, s); ok && fits(x) {
		best = x
	}
	kvs, err := k.all(ctx, markPrefix(s))
	if err != nil {
		return nil, fmt.Errorf("read numbering of session %s: %w", s, err)
	}
	for i := len(kvs) - 1; i >= 0; i-- { // keys are in the order of the log
		x, err := decodeMark(kvs[i].Value)
		if err != nil {
			k.report("numbering", err)
			continue
		}
		if x.Seq <= best.Seq {
			break
		}
		if fits(x) {
			return x, nil
		}
	}
	return best, nil
}

// usage reads all rows, each once.
func (k *keeper) usage(ctx context.Context) ([]usageRow, error) {
	if err := k.settle(ctx); err != nil {
		return nil, err
	}
	kvs, err := k.all(ctx, "usage/")
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	type key struct {
		session string
		seq     uint64
	}
	seen := map[key]bool{}
	var out []usageRow
	for _, kv := range kvs {
		var rows []usageRow
		if err := json.Unmarshal(kv.Value, &rows); err != nil {
			k.report("usage", err)
			continue
		}
		session, _, _ := strings.Cut(strings.TrimPrefix(kv.Key, "usage/"), "/")
		for _, r := range rows {
			if at := (key{session, r.Seq}); !seen[at] {
				seen[at] = true
				out = append(out, r)
			}
		}
	}
	return out, nil
}
