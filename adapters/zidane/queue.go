package zidane

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// chatOf finds a session's chat with its state.
func (f *Front) chatOf(ctx context.Context, wire string) (*host.Session, *state.State, *state.Chat, error) {
	s, chat, err := f.session(ctx, wire)
	if err != nil {
		return nil, nil, nil, err
	}
	st := s.State()
	c := st.Chat(chat)
	if c == nil {
		return nil, nil, nil, noSession(wire)
	}
	return s, st, c, nil
}

func queueList(ctx context.Context, c *call, p ref) (any, error) {
	_, _, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	return struct {
		Items []queueObject `json:"items"`
	}{queueOf(chat.Queue)}, nil
}

// queueAdd adds a prompt; with nothing running it starts at once.
func queueAdd(ctx context.Context, c *call, p struct {
	ref
	Prompt string `json:"prompt" jsonx:"required"`
}) (any, error) {
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, badField("prompt", "it is empty")
	}
	done, err := s.Prompt(ctx, host.Prompt{Chat: chat, Text: p.Prompt, By: c.conn.by})
	if err != nil {
		return nil, err
	}
	return struct {
		ID string `json:"id"`
	}{done.Message.String()}, nil
}

// itemRef names a prompt that waits.
type itemRef struct {
	ref
	ID string `json:"id" jsonx:"required"`
}

// queued finds the waiting prompt; its place is -1 when it does not wait.
func (c *call) queued(ctx context.Context, p itemRef) (*host.Session, *state.Chat, int, error) {
	s, _, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, nil, -1, err
	}
	x, err := id.Parse(p.ID)
	if err != nil {
		return s, chat, -1, nil
	}
	return s, chat, slices.IndexFunc(chat.Queue, func(m event.Message) bool { return m.ID == x }), nil
}

func notQueued(item string) error { return failed("No prompt \"%s\" waits in the queue.", shown(item)) }

func queueUpdate(ctx context.Context, c *call, p struct {
	itemRef
	Prompt string `json:"prompt" jsonx:"required"`
}) (any, error) {
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, badField("prompt", "it is empty")
	}
	s, chat, at, err := c.queued(ctx, p.itemRef)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, notQueued(p.ID)
	}
	m := chat.Queue[at]
	m.Text = p.Prompt
	return okResult{true}, s.UpdateQueued(ctx, chat.ID, m)
}

func queueRemove(ctx context.Context, c *call, p itemRef) (any, error) {
	type result struct {
		Removed bool `json:"removed"`
	}
	s, chat, at, err := c.queued(ctx, p)
	if err != nil || at < 0 {
		return result{false}, err
	}
	removed, err := s.RemoveQueued(ctx, chat.ID, chat.Queue[at].ID, c.conn.by)
	return result{removed}, err
}

func queueMove(ctx context.Context, c *call, p struct {
	itemRef
	Index *int `json:"index" jsonx:"required"`
}) (any, error) {
	if *p.Index < 0 {
		return nil, badField("index", "want 0 or more")
	}
	s, chat, at, err := c.queued(ctx, p.itemRef)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, notQueued(p.ID)
	}
	order := make([]id.ID, 0, len(chat.Queue))
	for _, m := range chat.Queue {
		order = append(order, m.ID)
	}
	moved := order[at]
	order = slices.Delete(order, at, at+1)
	order = slices.Insert(order, min(*p.Index, len(order)), moved)
	return okResult{true}, s.ReorderQueue(ctx, chat.ID, order, c.conn.by)
}

type draftObject struct {
	Text      string `json:"text"`
	UpdatedAt int64  `json:"updatedAt"`
}

func draftsGet(ctx context.Context, c *call, p ref) (any, error) {
	_, _, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	var o draftObject
	if chat.Draft != nil {
		o = draftObject{chat.Draft.Text, c.drafts.at(wireOf(p.SessionID))}
	}
	return o, nil
}

type draftParams struct {
	ref
	Text *string `json:"text" jsonx:"required"`
}

func draftsSet(ctx context.Context, c *call, p draftParams) (any, error) {
	newest := c.conn.newestDraft(p.SessionID, c.req)
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if !newest {
		return okResult{true}, nil // the last one wins
	}
	return okResult{true}, s.SetDraft(ctx, chat, &event.DraftChanged{By: c.conn.by, Text: *p.Text})
}

func wireOf(s string) id.ID {
	x, _ := id.Parse(s)
	return x
}

// drafts tells the other connections what is being typed, the newest text of
// each session at most every draftEvery. It is told to those who keep up.
type drafts struct {
	f     *Front
	dirty chan struct{}

	mu      sync.Mutex
	changes map[id.ID]*event.DraftChanged // not told yet
	times   map[id.ID]int64               // of the last change, milliseconds
}

func newDrafts(f *Front) *drafts {
	return &drafts{f: f, dirty: make(chan struct{}, 1), changes: map[id.ID]*event.DraftChanged{}, times: map[id.ID]int64{}}
}

func (d *drafts) changed(wire id.ID, b *event.DraftChanged) {
	d.mu.Lock()
	d.changes[wire] = b
	if b.Text == "" {
		delete(d.times, wire)
	} else {
		d.times[wire] = time.Now().UnixMilli()
	}
	d.mu.Unlock()
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

func (d *drafts) at(wire id.ID) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times[wire]
}

func (d *drafts) forget(wire id.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.changes, wire)
	delete(d.times, wire)
}

func (d *drafts) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-d.dirty:
		case <-ctx.Done():
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		pause.Reset(draftEvery)
		d.mu.Lock()
		changes := d.changes
		d.changes = map[id.ID]*event.DraftChanged{}
		d.mu.Unlock()
		for wire, b := range changes {
			d.tell(wire, b)
		}
	}
}

// tell sends a draft to all connections but the one it comes from. It has no
// number, because that one would miss it.
func (d *drafts) tell(wire id.ID, b *event.DraftChanged) {
	frame := member(begin("draft:changed", len(b.Text)+100), "sessionId", jsonx.AppendString(nil, wire.String()))
	frame = append(member(frame, "text", jsonx.AppendString(nil, b.Text)), '}', '}')
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	for c := range d.f.conns {
		if c.greeted.Load() && (b.By.Front != Name || b.By.Client != c.by.Client) {
			_ = c.ws.Send(frame)
		}
	}
}
