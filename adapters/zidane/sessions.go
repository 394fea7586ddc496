package zidane

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// ref names a session.
type ref struct {
	SessionID string `json:"sessionId" jsonx:"required"`
}

type createParams struct {
	Cwd     *string `json:"cwd" jsonx:"required"`
	Title   string  `json:"title"`
	AgentID string  `json:"agentId"`
	ModelID string  `json:"modelId"`
}

func sessionsCreate(ctx context.Context, c *call, p createParams) (any, error) {
	if len(p.Title) > maxText {
		return nil, badField("title", "longer than %d bytes", maxText)
	}
	dir, err := c.workDir(*p.Cwd)
	if err != nil {
		return nil, err
	}
	backend, persona, err := c.agentOf(p.AgentID)
	if err != nil {
		return nil, err
	}
	settings := event.Settings{Agent: persona, Model: p.ModelID}
	if settings.Model == "" {
		settings.Model = c.defaultModel(ctx, backend)
	} else if err := c.checkModel(backend, settings.Model); err != nil {
		return nil, err
	}
	s, err := c.host.CreateSession(ctx, host.CreateSession{Backend: backend, Dirs: []string{dir}, Title: p.Title,
		Settings: settings, By: c.conn.by})
	if err != nil {
		return nil, err
	}
	st := s.State()
	return c.objectOf(st, st.DefaultChat()), nil
}

// sessionsFork makes a session of its own with a session's history, up to a turn
// if one is named.
func sessionsFork(ctx context.Context, c *call, p struct {
	ref
	TurnID string `json:"turnId"`
}) (any, error) {
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	f := host.Fork{Chat: chat, By: c.conn.by}
	if p.TurnID != "" {
		if f.UpTo, err = id.Parse(p.TurnID); err != nil {
			return nil, failed("Turn \"%s\" not found.", shown(p.TurnID))
		}
	}
	made, err := s.Fork(ctx, f)
	if errors.Is(err, host.ErrNotFound) {
		return nil, failed("Turn \"%s\" not found.", shown(p.TurnID))
	}
	if err != nil {
		return nil, err
	}
	st := made.State()
	return c.objectOf(st, st.DefaultChat()), nil
}

type listParams struct {
	Cwd      string `json:"cwd"`
	Archived *bool  `json:"archived"`
}

// sessionsList lists the newest change first. Archived ones are listed when
// asked for.
func sessionsList(_ context.Context, c *call, p listParams) (any, error) {
	archived := p.Archived != nil && *p.Archived
	out := []sessionObject{}
	for _, sum := range c.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
		for _, o := range c.objectsOf(&sum) {
			if o.Archived == archived && (p.Cwd == "" || sameDir(o.Cwd, p.Cwd)) {
				out = append(out, o)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b sessionObject) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
	return struct {
		Sessions []sessionObject `json:"sessions"`
	}{out}, nil
}

func sessionsGet(ctx context.Context, c *call, p ref) (any, error) {
	return c.shownSession(ctx, p.SessionID)
}

func (f *Front) shownSession(ctx context.Context, wire string) (any, error) {
	s, chat, err := f.session(ctx, wire)
	if err != nil {
		return nil, err
	}
	st := s.State()
	ch := st.Chat(chat)
	if ch == nil {
		return nil, noSession(wire)
	}
	return f.objectOf(st, ch), nil
}

type updateParams struct {
	ref
	Title    *string `json:"title"`
	Archived *bool   `json:"archived"`
	AgentID  *string `json:"agentId"`
	ModelID  *string `json:"modelId"`
}

func sessionsUpdate(ctx context.Context, c *call, p updateParams) (any, error) {
	if p.Title != nil && (*p.Title == "" || len(*p.Title) > maxText) {
		return nil, badField("title", "want 1 to %d bytes", maxText)
	}
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	st := s.State()
	if chat != st.Default {
		if p.AgentID != nil || p.ModelID != nil {
			return nil, failed("The agent and model of a part of a session are those of the session.")
		}
		err = s.UpdateChat(ctx, chat, &event.ChatUpdated{By: c.conn.by, Title: p.Title, Archived: p.Archived})
	} else {
		u := &event.SessionUpdated{By: c.conn.by, Title: p.Title, Archived: p.Archived}
		if u.Settings, err = c.changed(st.Info.Settings, st.Info.Backend, p.AgentID, p.ModelID); err != nil {
			return nil, err
		}
		err = s.Update(ctx, u)
	}
	if err != nil {
		return nil, err
	}
	return c.shownSession(ctx, p.SessionID)
}

// changed is settings with another agent or model; nil if nothing changes.
func (f *Front) changed(old event.Settings, backend string, agent, model *string) (*event.Settings, error) {
	if agent == nil && model == nil {
		return nil, nil
	}
	next := old
	if agent != nil {
		b, persona, err := f.agentOf(*agent)
		if err != nil {
			return nil, err
		}
		if b != backend {
			return nil, failed("A session keeps its agent: \"%s\" is another one.", shown(*agent))
		}
		next.Agent = persona
	}
	if model != nil {
		if err := f.checkModel(backend, *model); err != nil {
			return nil, err
		}
		next.Model = *model
	}
	return &next, nil
}

func sessionsRename(ctx context.Context, c *call, p struct {
	ref
	Title string `json:"title" jsonx:"required"`
}) (any, error) {
	return sessionsUpdate(ctx, c, updateParams{ref: p.ref, Title: &p.Title})
}

func sessionsArchive(ctx context.Context, c *call, p struct {
	ref
	Archived *bool `json:"archived"`
}) (any, error) {
	archived := p.Archived == nil || *p.Archived
	return sessionsUpdate(ctx, c, updateParams{ref: p.ref, Archived: &archived})
}

func sessionsDelete(ctx context.Context, c *call, p ref) (any, error) {
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if chat != s.State().Default {
		err = s.RemoveChat(ctx, chat, c.conn.by)
	} else {
		err = c.host.DeleteSession(ctx, s.ID(), c.conn.by)
	}
	if errors.Is(err, host.ErrNotFound) {
		return nil, noSession(p.SessionID)
	}
	return okResult{err == nil}, err
}

func sessionsResume(_ context.Context, c *call, p struct {
	ref
	Epoch    string `json:"epoch" jsonx:"required"`
	AfterSeq uint64 `json:"afterSeq" jsonx:"required"`
}) (any, error) {
	x, err := id.Parse(p.SessionID)
	if err != nil || !c.exists(x) {
		return nil, noSession(p.SessionID)
	}
	return c.signals.resume(x, p.Epoch, p.AfterSeq), nil
}

// exists reports whether an id on the wire names a session, without opening it.
func (f *Front) exists(x id.ID) bool {
	if f.signals.known(x) {
		return true
	}
	if _, ok := f.host.Summary(x); ok {
		return true
	}
	_, ok := f.host.SessionOf(x)
	return ok
}
