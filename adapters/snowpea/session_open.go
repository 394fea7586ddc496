package snowpea

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/ws"
)

type resumeResult struct {
	SessionID  string          `json:"sessionId"`
	Events     json.RawMessage `json:"events"`
	Mode       string          `json:"mode"`
	Provider   *string         `json:"provider"`
	Model      *string         `json:"model"`
	Effort     *string         `json:"effort"`
	Delegation bool            `json:"delegation"`
}

// sessionResume answers with what the client missed and lets it hear what
// follows. Both meet at one position: nothing is sent twice, nothing falls
// between.
func sessionResume(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		AfterSeq  *int64 `json:"afterSeq"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.front.lookup(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if err := c.reopen(ctx, s, chat); err != nil {
		return nil, err
	}
	var after uint64
	if p.AfterSeq != nil && *p.AfterSeq > 0 {
		after = uint64(*p.AfterSeq)
	}
	sub := c.resubscribe(t, chat)
	events, rest, err := t.missed(ctx, s, chat, after)
	if err != nil {
		sub.detach()
		return nil, err
	}
	if n := len(events); n > 0 {
		after = events[n-1].seq
	} else {
		t.mu.Lock()
		after = min(after, t.last(chat))
		t.mu.Unlock()
	}
	t.own(chat, c, false)
	r.Then(func() {
		c.settleAnswer(c.ctx)
		sub.release()
		sub.catchUp(rest, after)
	})
	info := s.State().Info
	return resumeResult{SessionID: p.SessionID, Events: listing(events), Mode: modeName(info.Settings.Mode),
		Provider: ptr(info.Backend), Model: ptr(info.Settings.Model), Effort: effortName(info.Settings.Effort)}, nil
}

// reopen makes a closed session open again.
func (c *conn) reopen(ctx context.Context, s *host.Session, chat id.ID) error {
	st := s.State()
	open := false
	if st.Info.Closed {
		if err := s.Update(ctx, &event.SessionUpdated{By: c.actor(), Closed: &open}); err != nil {
			return err
		}
	}
	if x := st.Chat(chat); chat != st.Default && x != nil && x.Archived {
		return s.UpdateChat(ctx, chat, &event.ChatUpdated{By: c.actor(), Archived: &open})
	}
	return nil
}

// missed gives the events of a chat after a number, from the ring or from the
// log, as many as one answer may bring; rest reads the others.
func (t *track) missed(ctx context.Context, s *host.Session, chat id.ID, after uint64) (events []numbered, rest *replay, err error) {
	t.mu.Lock()
	topic, upto := t.topic(chat), t.fold.Seq
	t.mu.Unlock()
	if entries, ok := topic.Since(after); ok {
		size := 0
		for _, e := range entries {
			if size += len(e.Frame); size > replayInAnswer && len(events) > 0 {
				break
			}
			events = append(events, numbered{e.Pos, ws.Payload(e.Frame)})
		}
		return events, nil, nil
	}
	base, err := t.base(ctx, chat, after)
	if err != nil {
		return nil, nil, err
	}
	rest = newReplay(s, base, chat, after)
	events, more, err := rest.next(ctx, upto, replayInAnswer)
	if err != nil || !more {
		rest.close()
		rest = nil
	}
	return events, rest, err
}

func sessionAttach(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID     string  `json:"sessionId"`
		HostToolsFrom *string `json:"hostToolsFrom"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if p.HostToolsFrom != nil {
		if !c.front.isBrowser(*p.HostToolsFrom) {
			return nil, invalid("hostToolsFrom", "no open browser connection is called %q", cut(*p.HostToolsFrom, 80))
		}
		if metaString(s.State().Info.Meta, metaOwner) != *p.HostToolsFrom {
			if err := s.Update(ctx, &event.SessionUpdated{By: c.actor(),
				Meta: map[string]json.RawMessage{metaOwner: metaValue(*p.HostToolsFrom)}}); err != nil {
				return nil, err
			}
		}
	}
	sub := c.subscribe(t, chat)
	sub.hold()
	r.Then(sub.release)
	t.own(chat, c, true)
	c.front.offerTools(ctx, t, chat)
	names := c.front.hostTools(t, chat)
	return struct {
		SessionID     string   `json:"sessionId"`
		HostTools     []string `json:"hostTools"`
		HostToolsFrom *string  `json:"hostToolsFrom"`
	}{p.SessionID, names, ptr(metaString(s.State().Info.Meta, metaOwner))}, nil
}

// isBrowser reports whether an open browser connection has that id.
func (f *Front) isBrowser(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.mu.Lock()
		fits := c.kind == kindBrowser && (c.client == name || c.surface == name)
		c.mu.Unlock()
		if fits && c.open() {
			return true
		}
	}
	return false
}

func sessionClose(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[sessionParams](r)
	if err != nil {
		return nil, err
	}
	_, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if err := c.put(ctx, s, chat); err != nil {
		return nil, err
	}
	return done, nil
}

// put closes a session; another chat of it is put away by itself. The author
// is the gateway: nobody stopped the turn to say something else.
func (c *conn) put(ctx context.Context, s *host.Session, chat id.ID) error {
	by := event.Actor{Front: event.Gateway.Front, Client: c.surface}
	if chat == s.State().Default {
		return s.Close(ctx, by)
	}
	if _, err := s.Interrupt(ctx, host.Interrupt{Chat: chat, By: by}); err != nil {
		return err
	}
	closed := true
	return s.UpdateChat(ctx, chat, &event.ChatUpdated{By: by, Archived: &closed})
}

func sessionRename(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Title     string `json:"title"`
	}](r)
	if err != nil {
		return nil, err
	}
	_, s, chat, err := c.front.lookup(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	title := titleOf(p.Title)
	if chat == s.State().Default {
		err = s.Update(ctx, &event.SessionUpdated{By: c.actor(), Title: &title})
	} else {
		err = s.UpdateChat(ctx, chat, &event.ChatUpdated{By: c.actor(), Title: &title})
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

func sessionDeleteSaved(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID       *string `json:"sessionId"`
		Workdir         *string `json:"workdir"`
		All             bool    `json:"all"`
		DeleteWorkspace *bool   `json:"deleteWorkspace"`
	}](r)
	if err != nil {
		return nil, err
	}
	deleted := 0
	for _, s := range c.front.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true, IncludePrivate: true}) {
		one := p.SessionID != nil && s.Info.ID.String() == *p.SessionID
		several := p.SessionID == nil && (p.All || p.Workdir != nil && slices.Contains(s.Info.Dirs[:min(1, len(s.Info.Dirs))], *p.Workdir))
		busy := s.Status != host.Idle && s.Status != host.Failed
		if !one && !(several && s.Info.Closed) || busy {
			continue
		}
		if err := c.front.host.DeleteSession(ctx, s.Info.ID, c.actor()); err != nil {
			return nil, err
		}
		if p.DeleteWorkspace == nil || *p.DeleteWorkspace {
			c.front.removeWorkspace(&s.Info)
		}
		deleted++
	}
	return map[string]int{"deleted": deleted}, nil
}

func sessionSetActive(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[sessionParams](r)
	if err != nil {
		return nil, err
	}
	_, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if x := s.State().Chat(chat); x == nil || x.Origin.Kind == event.OriginSubagent {
		return nil, invalid("sessionId", "a subagent's session cannot be the active one")
	}
	c.mu.Lock()
	c.recent = s.ID()
	c.mu.Unlock()
	return done, nil
}

// recentDir is the working directory of the connection's latest session, else
// of the only open one, else "".
func (c *conn) recentDir() string {
	c.mu.Lock()
	recent := c.recent
	c.mu.Unlock()
	if s, ok := c.front.host.Summary(recent); ok && recent != id.Nil {
		return firstDir(s.Info.Dirs)
	}
	if open := c.front.host.List(host.Filter{}); len(open) == 1 {
		return firstDir(open[0].Info.Dirs)
	}
	return ""
}

func firstDir(dirs []string) string {
	if len(dirs) == 0 {
		return ""
	}
	return dirs[0]
}
