package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// ErrGap is returned by Apply for an event that does not follow the state.
var ErrGap = errors.New("event does not follow the state")

// New is the state before the first event.
func New(l Limits) *State { return &State{limit: l, edit: 1} }

// Freeze returns the state as it is now, for readers; s goes on.
func (s *State) Freeze() *State {
	frozen := *s
	s.edit++
	return &frozen
}

// Thaw returns a state that continues a frozen one, with its own limits. The
// frozen one stays as it is.
func (s *State) Thaw(l Limits) *State {
	t := *s
	t.edit = s.edit + 1<<32 // never an edit of s or of another thaw's path: nodes are copied first
	t.limit = l
	t.Chats = slices.Clone(s.Chats)
	for i := range t.Chats {
		c := t.chatAt(i)
		c.Trim(l)
		if c.Active != nil {
			t.unshare(t.active(c, c.Active.ID))
		}
	}
	return &t
}

// unshare makes the open texts of a turn safe to append to beside the state
// they come from.
func (s *State) unshare(t *Turn) {
	for i := range t.Parts {
		if t.Parts[i].Ended() {
			continue
		}
		p := s.part(t, t.Parts[i].ID)
		p.Text = p.Text.Clip()
		if p.Tool != nil {
			p.Tool.PartialInput, p.Tool.Output = p.Tool.PartialInput.Clip(), p.Tool.Output.Clip()
		}
	}
}

// Decode reads a state that was encoded as JSON, for folding on.
func Decode(b []byte, l Limits) (*State, error) {
	s := New(l)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	return s, nil
}

// Apply folds one event. The event must have the next sequence number. Events
// that name an unknown chat, turn or part change nothing but Seq: the log may
// hold more than this version understands.
func (s *State) Apply(e *event.Event) error {
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("%w: have %d, got %d", ErrGap, s.Seq, e.Seq)
	}
	s.Seq = e.Seq
	if d, ok := e.Body.(*event.PartDelta); ok {
		s.delta(e, d)
		return nil
	}
	if touches(e.Body) {
		s.ModifiedAt = e.At
	}
	s.made(e)
	switch b := e.Body.(type) {
	case *event.SessionCreated:
		s.Info = b.Info
		s.Default = b.Default
		if b.Chat != nil {
			s.Chats = append(s.Chats, newChat(b.Chat, e.At, s.edit))
			break
		}
		s.Chats = append(s.Chats, &Chat{ChatInfo: event.ChatInfo{ID: b.Default, CreatedAt: b.Info.CreatedAt,
			Origin: event.Origin{Kind: event.OriginUser}}, ModifiedAt: e.At, edit: s.edit})
	case *event.SessionUpdated:
		s.update(b)
	case *event.ClientToolsSet:
		s.clientTools(b)
	case *event.InteractionOpened:
		i := b.Interaction
		s.Open = append(slices.Clone(s.Open), &i)
		s.ask(&i)
	case *event.InteractionResolved:
		s.Open = slices.DeleteFunc(slices.Clone(s.Open), func(i *event.Interaction) bool { return i.ID == b.ID })
		s.answer(e.Chat, e.Turn, b)
	case *event.ChatAdded:
		s.Chats = append(slices.Clone(s.Chats), newChat(b, e.At, s.edit))
		s.Info.Provisional = s.Info.Provisional && b.Turns == 0
	case *event.ChatsReordered:
		s.reorderChats(b.Order)
	case *event.ChatRemoved:
		if !b.Default.IsNil() {
			s.Default = b.Default
		}
		s.Chats = slices.DeleteFunc(slices.Clone(s.Chats), func(c *Chat) bool { return c.ID == e.Chat })
	default:
		if c := s.chat(e.Chat); c != nil {
			if touches(e.Body) {
				c.ModifiedAt = e.At
			}
			s.applyChat(c, e)
		}
	}
	return nil
}

// made notes whether there is an agent for the session: what happens in a turn
// shows that there is one, and a turn that fails because it could not be started,
// that there is none.
func (s *State) made(e *event.Event) {
	if !s.Info.Making && !s.Info.Unmade {
		return
	}
	shown := !e.Turn.IsNil()
	switch b := e.Body.(type) {
	case *event.TurnStarted, *event.TurnResumed, *event.InteractionResolved:
		return
	case *event.ChatUpdated:
		shown = b.Conversation != nil
	case *event.TurnEnded:
		if failed := b.Error; failed != nil && failed.Code == event.CodeAgentStart {
			s.Info.Making, s.Info.Unmade, s.Info.MakeError = false, true, failed
			return
		}
		shown = !s.Info.Unmade || b.Status == event.TurnComplete
	}
	if shown {
		s.Info.Making, s.Info.Unmade = false, false
	}
}

// touches reports whether the event counts as a modification for lists.
func touches(b event.Body) bool {
	switch b := b.(type) {
	case *event.DraftChanged, *event.ClientToolsSet, *event.ContextReported, *event.WorkChanged:
		return false
	case *event.SessionUpdated:
		return b.Unread == nil && b.Owner == nil
	case *event.ChatUpdated:
		return b.Unread == nil && b.Conversation == nil && b.ForkOf == nil
	case *event.ChatsReordered, *event.ChatTruncated, *event.TurnResumed, *event.TurnPointed:
		return false
	}
	return true
}

// chat returns the chat for writing.
func (s *State) chat(c id.ID) *Chat {
	for i := len(s.Chats) - 1; i >= 0; i-- {
		if s.Chats[i].ID == c {
			if s.Chats[i].edit != s.edit {
				s.Chats = slices.Clone(s.Chats)
			}
			return s.chatAt(i)
		}
	}
	return nil
}

// chatAt makes the i-th chat this edit's own; the caller owns the slice.
func (s *State) chatAt(i int) *Chat {
	c := s.Chats[i]
	if c.edit != s.edit {
		own := *c
		own.edit = s.edit
		c = &own
		s.Chats[i] = c
	}
	return c
}

// active returns the running turn for writing, if it is that one.
func (s *State) active(c *Chat, t id.ID) *Turn {
	a := c.Active
	if a == nil || a.ID != t {
		return nil
	}
	if a.edit != s.edit {
		own := *a
		own.edit = s.edit
		own.Parts = slices.Clone(a.Parts)
		own.owned = slices.Clone(a.owned)
		c.Active = &own
		a = &own
	}
	return a
}

// part returns a part of a turn that is ours, for writing.
func (s *State) part(t *Turn, p id.ID) *event.Part {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].ID != p {
			continue
		}
		if i >= len(t.owned) { // after decoding a snapshot
			t.owned = append(t.owned, make([]uint64, len(t.Parts)-len(t.owned))...)
		}
		if t.owned[i] != s.edit {
			own := *t.Parts[i]
			if own.Tool != nil {
				tool := *own.Tool
				own.Tool = &tool
			}
			t.Parts[i], t.owned[i] = &own, s.edit
		}
		return t.Parts[i]
	}
	return nil
}

// delta is the hot path: no copying unless somebody froze the state.
func (s *State) delta(e *event.Event, d *event.PartDelta) {
	c := s.chat(e.Chat)
	if c == nil {
		return
	}
	t := s.active(c, e.Turn)
	if t == nil {
		return
	}
	p := s.part(t, d.Part)
	if p == nil {
		return
	}
	switch {
	case d.Field == event.FieldText:
		p.Text = p.Text.Append(d.Text)
	case p.Tool == nil:
	case d.Field == event.FieldInput:
		p.Tool.PartialInput = p.Tool.PartialInput.Append(d.Text)
	default:
		p.Tool.Output = p.Tool.Output.Append(d.Text)
	}
}

func (s *State) update(b *event.SessionUpdated) {
	set(&s.Info.Title, b.Title)
	set(&s.Info.Settings, b.Settings)
	set(&s.Info.Archived, b.Archived)
	set(&s.Info.Unread, b.Unread)
	set(&s.Info.Closed, b.Closed)
	set(&s.Info.Owner, b.Owner)
	if b.Dirs != nil {
		s.Info.Dirs = b.Dirs
	}
	s.Info.Aliases = mergeMap(s.Info.Aliases, b.Aliases, func(v string) bool { return v == "" })
	s.Info.Meta = mergeMap(s.Info.Meta, b.Meta, func(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" })
}

func (s *State) clientTools(b *event.ClientToolsSet) {
	tools := slices.DeleteFunc(slices.Clone(s.Tools), func(t event.ClientToolsSet) bool {
		return t.Client.Front == b.Client.Front && t.Client.Client == b.Client.Client
	})
	if len(b.Tools) > 0 {
		tools = append(tools, *b)
	}
	s.Tools = tools
}

func (s *State) applyChat(c *Chat, e *event.Event) {
	switch b := e.Body.(type) {
	case *event.ChatUpdated:
		set(&c.Title, b.Title)
		set(&c.Conversation, b.Conversation)
		set(&c.ForkOf, b.ForkOf)
		set(&c.ForkAt, b.ForkAt)
		if b.ForkEnd != nil {
			c.ForkEnd = b.ForkEnd
		}
		set(&c.Archived, b.Archived)
		set(&c.Unread, b.Unread)
		if b.Dirs != nil {
			c.Dirs = b.Dirs
		}
		c.Aliases = mergeMap(c.Aliases, b.Aliases, func(v string) bool { return v == "" })
	case *event.ChatTruncated:
		c.truncate(b)
	case *event.DraftChanged:
		c.Draft = b
		if b.Text == "" && b.Rich == nil {
			c.Draft = nil
		}
	case *event.MessageQueued:
		if b.Steer {
			c.Steering = append(slices.Clone(c.Steering), b.Message)
		} else {
			c.Queue = append(slices.Clone(c.Queue), b.Message)
		}
	case *event.MessageUpdated:
		c.Queue, c.Steering = replaceMessage(c.Queue, b.Message), replaceMessage(c.Steering, b.Message)
	case *event.MessageRemoved:
		c.Queue, c.Steering = dropMessage(c.Queue, b.ID), dropMessage(c.Steering, b.ID)
	case *event.QueueReordered:
		c.Queue = reorder(c.Queue, b.Order)
	case *event.PlanUpdated:
		c.Plan = b.Items
	case *event.WorkChanged:
		c.Work = b.Work
	case *event.ContextReported:
		c.Context = *b
		if t := s.active(c, e.Turn); t != nil {
			t.Context = *b
		}
	case *event.TurnStarted:
		s.startTurn(c, e, b)
	case *event.TurnResumed:
		s.resumeTurn(c, e, b)
	case *event.TurnPointed:
		c.point(b)
	default:
		if t := s.active(c, e.Turn); t != nil {
			s.applyTurn(c, t, e)
		}
	}
}

func (s *State) startTurn(c *Chat, e *event.Event, b *event.TurnStarted) {
	c.Rest = nil
	c.Active = &Turn{ID: e.Turn, Number: c.Count, Message: b.Message,
		StartedAt: e.At, Status: event.TurnRunning, edit: s.edit}
	s.Info.Making = s.Info.Making || s.Info.Provisional
	s.Info.Provisional = false
	if c.ID == s.Default && !b.Message.System {
		s.LastPrompt = b.Message.Text
	}
	s.Info.Closed = false
}

func (s *State) applyTurn(c *Chat, t *Turn, e *event.Event) {
	switch b := e.Body.(type) {
	case *event.PartStarted:
		p := b.Part
		if p.Tool != nil {
			tool := *p.Tool
			p.Tool = &tool
		}
		if len(t.owned) < len(t.Parts) {
			t.owned = append(t.owned, make([]uint64, len(t.Parts)-len(t.owned))...)
		}
		t.Parts, t.owned = append(t.Parts, &p), append(t.owned, s.edit)
	case *event.PartEnded:
		if p := s.part(t, b.Part); p != nil {
			p.EndedAt, p.Cut = e.At, b.Cut
			if !p.Text.Is(b.Text) {
				p.Text = event.TextOf(b.Text)
			}
		}
	case *event.ToolReady:
		if p := s.part(t, b.Part); p != nil && p.Tool != nil {
			p.Tool.Status, p.Tool.Input, p.Tool.PartialInput = event.CallPending, b.Input, event.Text{}
			p.Tool.Edits = b.Edits
			if b.Title != "" {
				p.Tool.Title = b.Title
			}
			if b.Tag != "" {
				p.Tool.Tag = b.Tag
			}
		}
	case *event.ToolRunning:
		if p := s.part(t, b.Part); p != nil && p.Tool != nil {
			p.Tool.Status, p.Tool.Allowed, p.Tool.RunningAt = event.CallRunning, b.Allowed, e.At
			if b.Input != nil {
				p.Tool.Input = b.Input
			}
		}
	case *event.ToolLinked:
		if p := s.part(t, b.Part); p != nil && p.Tool != nil {
			p.Tool.Child = b.Child
		}
	case *event.ToolProgress:
		if p := s.part(t, b.Part); p != nil && p.Tool != nil {
			p.Tool.Progress = b.Text
		}
	case *event.ToolEnded:
		if p := s.part(t, b.Part); p != nil && p.Tool != nil {
			p.EndedAt, p.Tool.Progress = e.At, ""
			p.Tool.Status, p.Tool.Error, p.Tool.ExitCode = b.Status, b.Error, b.ExitCode
			p.Tool.Dropped, p.Tool.Refused = b.Dropped, b.Refused
			if !p.Tool.Output.Is(b.Output) {
				p.Tool.Output = event.TextOf(b.Output)
			}
			if b.Edits != nil {
				p.Tool.Edits = b.Edits
			}
		}
	case *event.UsageReported:
		t.Usage = t.Usage.Add(b.Usage)
		c.Usage = c.Usage.Add(b.Usage)
		s.Usage = s.Usage.Add(b.Usage)
	case *event.TurnEnded:
		t.Status, t.Error, t.Duration, t.Synthetic, t.Point, t.Resumable = b.Status, b.Error, b.Duration, b.Synthetic, b.Point, b.Resumable
		t.owned = nil
		c.Active, c.Rest = nil, nil
		c.Count++
		c.Turns = append(c.Turns[:len(c.Turns):len(c.Turns)], t)
		c.Trim(s.limit)
		s.Info.Unread = true
		c.Unread = true
	}
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

func mergeMap[V any](m, changes map[string]V, deletes func(V) bool) map[string]V {
	if len(changes) == 0 {
		return m
	}
	out := make(map[string]V, len(m)+len(changes))
	for k, v := range m {
		out[k] = v
	}
	for k, v := range changes {
		if deletes(v) {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
