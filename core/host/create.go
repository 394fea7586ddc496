package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// CreateSession says what a new session is to be.
type CreateSession struct {
	// ID is chosen by the gateway where it is Nil.
	ID      id.ID
	Backend string // "" is the default backend
	// Dirs are absolute existing directories; none is the default one.
	Dirs     []string
	Title    string
	Settings event.Settings
	By       event.Actor
	// Alias is the client's own name for the session on By.Front.
	Alias string
	// ChatAlias is the client's own name for the default chat.
	ChatAlias string
	Meta      map[string]json.RawMessage
	// Plugins are given to the session's agent; their copies are held as long as
	// there is the session.
	Plugins []event.Plugin
	// Key makes the creation happen once.
	Key string
	// Private: not announced and not listed before its first turn.
	Private bool
}

// CreateSession makes a session. It starts no agent. The session is on disk
// when it returns.
func (h *Host) CreateSession(ctx context.Context, c CreateSession) (*Session, error) {
	info, err := h.newInfo(c)
	if err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	h.mu.Lock()
	if c.Key != "" {
		if first, ok := h.keys[keyOf(c.By.Front, c.Key)]; ok {
			h.mu.Unlock()
			s, err := h.Session(ctx, first)
			if err == nil {
				err = s.Durable(ctx, 1) // the first request may still wait for that
			}
			if err != nil {
				return nil, fmt.Errorf("create session: %w", err)
			}
			return s, nil
		}
	}
	_, taken := h.index[info.ID]
	if _, alias := h.aliases[c.By.Front+"\x00"+c.Alias]; taken || c.Alias != "" && alias {
		h.mu.Unlock()
		return nil, fmt.Errorf("create session: %w", ErrExists)
	}
	if h.closing {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	// Until it is live the session holds its id and names, and whoever asks
	// for it waits.
	h.indexLocked(&Summary{Info: info, Private: true})
	opened := make(chan struct{})
	h.opening[info.ID] = opened
	if c.Key != "" {
		h.rememberKeyLocked(keyOf(c.By.Front, c.Key), info.ID)
	}
	h.mu.Unlock()

	h.adopt(&info)
	s := newSession(h, state.New(state.DefaultLimits), c.Private)
	s.id, s.log, s.w.log = info.ID, h.log.With("session", info.ID.String()), logName(info.ID)
	chat := id.New()
	s.round(func() {
		s.at = info.CreatedAt
		s.emit(id.Nil, id.Nil, &event.SessionCreated{Info: info, Default: chat})
		if c.ChatAlias != "" {
			s.emit(chat, id.Nil, &event.ChatUpdated{By: c.By, Aliases: map[string]string{c.By.Front: c.ChatAlias}})
		}
	})

	h.mu.Lock()
	delete(h.opening, info.ID)
	close(opened)
	if h.closing { // Close knows the live sessions and would miss this one
		h.mu.Unlock()
		return nil, ErrClosed
	}
	h.startLocked(s)
	h.mu.Unlock()
	if err := s.Durable(ctx, s.seq.Load()); err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	return s, nil
}

func (h *Host) rememberKeyLocked(k string, s id.ID) {
	h.keys[k] = s
	h.keyRing = append(h.keyRing, k)
	if len(h.keyRing) > MaxKeys {
		delete(h.keys, h.keyRing[0])
		h.keyRing = h.keyRing[1:]
	}
}

// newInfo checks a creation and fills in defaults.
func (h *Host) newInfo(c CreateSession) (event.SessionInfo, error) {
	info := event.SessionInfo{ID: c.ID, CreatedAt: now(), Backend: c.Backend, Title: clipTitle(c.Title), Settings: c.Settings,
		Owner: c.By, Meta: c.Meta, Plugins: c.Plugins, Provisional: true}
	if info.ID.IsNil() {
		info.ID = id.New()
	}
	if info.Backend == "" {
		info.Backend = h.Agents()[0].Name
	}
	if h.backend(info.Backend) == nil {
		return info, fmt.Errorf("%w: %.80q", ErrNoBackend, info.Backend)
	}
	if info.Settings.Mode == "" {
		info.Settings.Mode = h.opt.DefaultMode
	}
	if err := checkMode(info.Settings.Mode); err != nil {
		return info, err
	}
	if len(c.Alias) > MaxName || len(c.ChatAlias) > MaxName || len(c.Key) > MaxName {
		return info, fmt.Errorf("an id of over %d bytes: %w", MaxName, ErrTooLarge)
	}
	if c.Alias != "" {
		info.Aliases = map[string]string{c.By.Front: c.Alias}
	}
	for k, v := range c.Meta {
		if len(k) > MaxName || len(v) > MaxMeta {
			return info, fmt.Errorf("meta %.80q of %d bytes: %w", k, len(v), ErrTooLarge)
		}
	}
	dirs := c.Dirs
	if len(dirs) == 0 && h.opt.DefaultDir != "" {
		dirs = []string{h.opt.DefaultDir}
	}
	var err error
	info.Dirs, err = h.cleanDirs(dirs)
	return info, err
}

func checkMode(m event.Mode) error {
	switch m {
	case event.ModePlan, event.ModeAccept, event.ModeAuto:
		return nil
	}
	return fmt.Errorf("%w: there is no mode %.80q", ErrInvalid, m)
}

// cleanDirs checks working directories and makes their spelling canonical.
func (h *Host) cleanDirs(dirs []string) ([]string, error) {
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%w: none was given", ErrBadDir)
	}
	if len(dirs) > MaxDirs {
		return nil, fmt.Errorf("%d working directories, at most %d: %w", len(dirs), MaxDirs, ErrTooLarge)
	}
	out := make([]string, len(dirs))
	for i, d := range dirs {
		if !filepath.IsAbs(d) {
			return nil, fmt.Errorf("%w: %q is not absolute", ErrBadDir, d)
		}
		out[i] = filepath.Clean(d)
	}
	return out, h.CheckDirs(out)
}

// CheckDirs reports a working directory that is not there, or fenced.
func (h *Host) CheckDirs(dirs []string) error {
	for _, d := range dirs {
		st, err := os.Stat(d)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%w: %s does not exist", ErrBadDir, d)
		case err != nil:
			return fmt.Errorf("%w: %s cannot be read", ErrBadDir, d)
		case !st.IsDir():
			return fmt.Errorf("%w: %s is not a directory", ErrBadDir, d)
		}
		if real, err := filepath.EvalSymlinks(d); h.opt.Fenced != nil && (err != nil || h.opt.Fenced(real)) {
			return fmt.Errorf("%w: %s is closed to sessions", ErrBadDir, d)
		}
	}
	return nil
}

// absolute resolves paths against the first working directory.
func absolute(dirs, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		if !filepath.IsAbs(p) && len(dirs) > 0 {
			p = filepath.Join(dirs[0], p)
		}
		out[i] = filepath.Clean(p)
	}
	return out
}

// DeleteSession ends a session and removes all that is stored of it.
//
// What an agent keeps of the conversations stays, but is not listed again.
func (h *Host) DeleteSession(ctx context.Context, sid id.ID, by event.Actor) error {
	if done, err := h.deletePast(ctx, sid); done {
		h.terminals.RemoveOf(sid)
		return err
	}
	s, err := h.Session(ctx, sid)
	if err != nil {
		return err
	}
	var buried []store.KV
	err = s.do(ctx, true, func(s *Session) error {
		for _, c := range s.work.Chats {
			s.dropQueue(c.ID, by)
		}
		for _, c := range s.running() {
			if r := s.chatRun(c.ID); r.parent == nil && !r.turn.IsNil() {
				s.interrupt(r, by)
			}
		}
		s.commit()
		s.deleted, s.stopping = true, true
		h.mu.Lock()
		defer h.mu.Unlock()
		sum := *h.index[sid]
		for _, c := range s.work.Chats {
			buried = append(buried, h.buryLocked(s.work.Info.Backend, c.Conversation)...)
		}
		h.unindexNames(sid)
		delete(h.index, sid)
		delete(h.live, sid)
		delete(h.beyond, sid)
		for w := range h.watchers {
			w.push(Change{Kind: Removed, Session: sid, Summary: sum, Reason: reasonDeleted})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	<-s.gone
	h.terminals.RemoveOf(sid)
	h.disown(sid)
	if err := h.extended.Forget(sid); err != nil {
		h.log.Warn("What was decided for a session is kept", "session", sid.String(), "err", err)
	}
	if err := h.erase(ctx, sid, buried...); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// erase removes what is stored of a session: first its summary, so that a
// crash in between leaves nothing that is listed. In the same step it stores
// what put says.
func (h *Host) erase(ctx context.Context, sid id.ID, put ...store.KV) error {
	t := h.store.Commit(store.Batch{DropLog: logName(sid), Put: put, Delete: []string{
		summaryKey(sid), snapshotKey(sid), runningKey(sid), reservedKey(sid), importedKey(sid)}})
	if err := store.Wait(ctx, t); err != nil {
		return err
	}
	prefix := "turn/" + sid.String() + "/"
	for {
		kvs, err := h.store.Scan(ctx, prefix, "", pageKeys, false)
		if err != nil || len(kvs) == 0 {
			return err
		}
		b := store.Batch{}
		for _, kv := range kvs {
			b.Delete = append(b.Delete, kv.Key)
		}
		if err := store.Wait(ctx, h.store.Commit(b)); err != nil {
			return err
		}
	}
}

// keep stores large attachments as blobs, so that events stay small.
func (h *Host) keep(ctx context.Context, in []event.Attachment) ([]event.Attachment, error) {
	out := make([]event.Attachment, len(in))
	for i, a := range in {
		if a.Size == 0 {
			a.Size = int64(max(len(a.Data), len(a.Text)))
		}
		if len(a.Data) > InlineAttachment {
			name, err := h.store.PutBlob(ctx, a.Data)
			if err != nil {
				return nil, fmt.Errorf("store attachment %.80q: %w", a.Name, err)
			}
			a.Blob, a.Data = name, nil
		}
		out[i] = a
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// fetch reads the blobs of attachments back, for the agent.
func (h *Host) fetch(ctx context.Context, in []event.Attachment) ([]event.Attachment, error) {
	out := make([]event.Attachment, len(in))
	for i, a := range in {
		if a.Blob != "" {
			b, err := h.store.Blob(ctx, a.Blob)
			if err != nil {
				return nil, fmt.Errorf("read attachment %.80q: %w", a.Name, err)
			}
			a.Data, a.Blob = b, ""
		}
		out[i] = a
	}
	return out, nil
}
