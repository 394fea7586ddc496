package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// Busy says what becomes of a message while a turn runs.
type Busy int

const (
	// BusyQueue lets it wait for the turn's end.
	BusyQueue Busy = iota
	// BusySteer gives it to the running turn; it is queued where the agent
	// cannot be steered.
	BusySteer
	// BusyRefuse answers ErrBusy.
	BusyRefuse
)

// Prompt is a message to a chat.
type Prompt struct {
	Chat        id.ID // Nil is the default chat
	Text        string
	Attachments []event.Attachment
	By          event.Actor
	// Settings override the session's for this message.
	Settings event.Settings
	// KeepEffort makes the effort it picks count for the turns after its own too; one
	// that the model has not got is passed over.
	KeepEffort bool
	// MessageID and Turn are chosen by the gateway where they are Nil.
	MessageID, Turn id.ID
	// MessageAlias and TurnAlias are the client's own names.
	MessageAlias, TurnAlias string
	// Key makes the prompt run once, however often it is sent.
	Key string
	// Rich is the front's own form of the message.
	Rich json.RawMessage
	Busy Busy
	// Command, if there is one, is run by the gateway in the session's first
	// directory, or the chat's, in the place of a turn of the agent's, who is told with the next
	// prompt. It waits as messages do; it does not steer.
	Command string
	// System: no person speaks.
	System bool
	// Tools are offered for this turn, run by By.
	Tools []event.ClientTool
	// Refusals is how many refused calls end the turn; 0 is no limit.
	Refusals int
}

// Prompted says what became of a prompt.
type Prompted struct {
	Message id.ID
	// Turn is the turn that the message opened or will open; for a steering
	// message the running one.
	Turn                      id.ID
	Started, Queued, Steering bool
	// Duplicate: the key was used before; this is the first answer.
	Duplicate bool
	// Position in the queue, from 1.
	Position int
	// Seq is the number of the last event the prompt caused.
	Seq uint64
}

// Prompt sends a message to a chat's agent. It returns once that is stored.
func (s *Session) Prompt(ctx context.Context, p Prompt) (Prompted, error) {
	if err := s.checkPrompt(&p); err != nil {
		return Prompted{}, err
	}
	if err := jail(s.reach(p.Chat), p.Attachments); err != nil {
		return Prompted{}, err
	}
	stored, err := s.host.keep(ctx, p.Attachments)
	if err != nil {
		return Prompted{}, err
	}
	var out Prompted
	ran := s
	err = s.do(ctx, false, func(s *Session) error {
		ran = s
		if s.host.isClosing() {
			return ErrClosed
		}
		if p.Key != "" {
			if first, ok := s.promptedBefore(p); ok {
				out = first
				out.Duplicate = true
				return nil
			}
		}
		m := event.Message{ID: p.MessageID, At: s.at, Text: p.Text, Attachments: stored, By: p.By, Settings: p.Settings, KeepEffort: p.KeepEffort,
			Turn: p.Turn, TurnAlias: p.TurnAlias, Alias: p.MessageAlias, Key: p.Key, Rich: p.Rich, System: p.System,
			Tools: p.Tools, Refusals: p.Refusals, Command: p.Command}
		if m.ID.IsNil() {
			m.ID = id.New()
		}
		var err error
		if out, err = s.take(p, m); err != nil {
			return err
		}
		out.Seq = s.work.Seq
		s.rememberKey(p, out)
		return nil
	})
	if err != nil {
		return Prompted{}, err // it may still run when ctx ended, and write out
	}
	if out.Duplicate { // the first request may still wait for the disk
		err = ran.Durable(ctx, out.Seq)
	}
	return out, err
}

// take starts, queues or steers.
func (s *Session) take(p Prompt, m event.Message) (Prompted, error) {
	chat := p.Chat
	if chat.IsNil() {
		chat = s.work.Default
	}
	c := s.work.Chat(chat)
	if c == nil {
		return Prompted{}, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	if p.Command != "" && merged(s.work.Info.Settings, p.Settings).DenyExec {
		return Prompted{}, fmt.Errorf("%w: this session runs no commands", ErrUnsupported)
	}
	r := s.chatRun(chat)
	if r.parent != nil {
		return Prompted{}, fmt.Errorf("%w: a subagent takes no messages", ErrUnsupported)
	}
	if r.moving {
		return Prompted{}, fmt.Errorf("the chat is being moved: %w", ErrBusy)
	}
	if c.Active == nil && len(c.Queue) == 0 {
		if m.Turn.IsNil() {
			m.Turn = id.New()
		}
		s.start(r, m, false)
		s.prompt(r)
		return Prompted{Message: m.ID, Turn: m.Turn, Started: true}, nil
	}
	if p.Busy == BusyRefuse {
		return Prompted{}, fmt.Errorf("chat %s: %w", chat, ErrBusy)
	}
	if len(c.Queue)+len(c.Steering) >= MaxQueue {
		return Prompted{}, fmt.Errorf("%w: %d messages wait already", ErrTooLarge, MaxQueue)
	}
	if p.Busy == BusySteer && p.Command == "" && c.Active != nil && c.Active.Message.Command == "" && r.conv != nil && s.host.can(s.work.Info.Backend).Steer {
		s.emit(chat, id.Nil, &event.MessageQueued{Message: m, Steer: true})
		s.keepEffort(&m) // the running turn has its own
		s.steer(r, m)
		return Prompted{Message: m.ID, Turn: c.Active.ID, Steering: true, Position: len(s.work.Chat(chat).Steering)}, nil
	}
	if m.Turn.IsNil() {
		m.Turn = id.New()
	}
	s.emit(chat, id.Nil, &event.MessageQueued{Message: m})
	out := Prompted{Message: m.ID, Turn: m.Turn, Queued: true, Position: len(s.work.Chat(chat).Queue)}
	if s.work.Chat(chat).Active == nil { // the queue outlived a stop of the gateway
		s.next(r)
		out.Position = len(s.work.Chat(chat).Queue)
	}
	return out, nil
}

func (s *Session) steer(r *run, m event.Message) {
	err := r.conv.tell("steer", func(ctx context.Context, c agent.Conversation) error {
		steerer, ok := c.(agent.Steerer)
		if !ok {
			return agent.ErrUnsupported // it stays in the list and starts a turn of its own
		}
		attachments, err := s.host.fetch(ctx, m.Attachments)
		if err != nil {
			return err
		}
		return steerer.Steer(ctx, agent.Prompt{Message: m.ID.String(), Text: m.Text, Attachments: attachments})
	})
	if err != nil {
		s.crashed(r, err)
	}
}

func (s *Session) checkPrompt(p *Prompt) error {
	size := 0
	for _, a := range p.Attachments {
		size = max(size, len(a.Data), len(a.Text))
	}
	switch {
	case len(p.Text) > MaxPrompt || len(p.Rich) > MaxPrompt:
		return fmt.Errorf("prompt of %d bytes, at most %d: %w", len(p.Text), MaxPrompt, ErrTooLarge)
	case len(p.Attachments) > MaxAttachments:
		return fmt.Errorf("%d attachments, at most %d: %w", len(p.Attachments), MaxAttachments, ErrTooLarge)
	case size > MaxAttachment:
		return fmt.Errorf("attachment of %d bytes, at most %d: %w", size, MaxAttachment, ErrTooLarge)
	case len(p.MessageAlias) > MaxName || len(p.TurnAlias) > MaxName || len(p.Key) > MaxName:
		return fmt.Errorf("an id of over %d bytes: %w", MaxName, ErrTooLarge)
	}
	return checkTools(p.Tools)
}

func keyOf(front, key string) string { return front + "\x00" + key }

// promptedBefore finds the first answer to a prompt with the same key.
func (s *Session) promptedBefore(p Prompt) (Prompted, bool) {
	if first, ok := s.keys[keyOf(p.By.Front, p.Key)]; ok {
		return first, true
	}
	for _, c := range s.work.Chats { // after a restart: as far as the window reaches
		for _, t := range append(slices.Clone(c.Turns), active(c)...) {
			if t.Message.Key == p.Key && t.Message.By.Front == p.By.Front {
				return Prompted{Message: t.Message.ID, Turn: t.ID, Started: true, Seq: s.work.Seq}, true
			}
		}
		for i, m := range c.Queue {
			if m.Key == p.Key && m.By.Front == p.By.Front {
				return Prompted{Message: m.ID, Turn: m.Turn, Queued: true, Position: i + 1, Seq: s.work.Seq}, true
			}
		}
	}
	return Prompted{}, false
}

func active(c *state.Chat) []*state.Turn {
	if c.Active == nil {
		return nil
	}
	return []*state.Turn{c.Active}
}

func (s *Session) rememberKey(p Prompt, out Prompted) {
	if p.Key == "" {
		return
	}
	k := keyOf(p.By.Front, p.Key)
	s.keys[k] = out
	s.keyOrder = append(s.keyOrder, k)
	if len(s.keyOrder) > MaxKeys {
		delete(s.keys, s.keyOrder[0])
		s.keyOrder = s.keyOrder[1:]
	}
}

// Interrupt stops the running turn of a chat.
type Interrupt struct {
	Chat id.ID // Nil is the default chat
	// Turn, when not Nil, must be the running one, else nothing happens.
	Turn id.ID
	By   event.Actor
	// KeepQueue leaves the waiting messages; the next one starts.
	KeepQueue bool
}

// Interrupt ends the running turn as cancelled, at once, and drops what waits
// for it. It reports whether a turn was running.
func (s *Session) Interrupt(ctx context.Context, in Interrupt) (stopped bool, err error) {
	var ended bool
	err = s.do(ctx, true, func(s *Session) error {
		chat := in.Chat
		if chat.IsNil() {
			chat = s.work.Default
		}
		c := s.work.Chat(chat)
		if c == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		if !in.Turn.IsNil() && (c.Active == nil || c.Active.ID != in.Turn) {
			return nil
		}
		if !in.KeepQueue {
			s.dropQueue(chat, in.By)
		}
		if c = s.work.Chat(chat); c.Active != nil {
			ended = true
			s.interrupt(s.chatRun(chat), in.By)
		}
		return nil
	})
	if err != nil {
		return false, err // it may still run when ctx ended
	}
	return ended, nil
}

func (s *Session) dropQueue(chat id.ID, by event.Actor) {
	c := s.work.Chat(chat)
	for _, m := range append(slices.Clone(c.Steering), c.Queue...) {
		s.emit(chat, id.Nil, &event.MessageRemoved{ID: m.ID, Why: event.RemovedDropped, By: by, Turn: m.Turn})
	}
}

// queued finds a waiting message of a chat.
func (s *Session) queued(chat, message id.ID) (event.Message, error) {
	c := s.work.Chat(chat)
	if c == nil {
		return event.Message{}, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	for _, m := range append(slices.Clone(c.Queue), c.Steering...) {
		if m.ID == message {
			return m, nil
		}
	}
	return event.Message{}, fmt.Errorf("message %s does not wait: %w", message, ErrNotFound)
}

// UpdateQueued replaces the text, attachments and rich form of a waiting
// message.
func (s *Session) UpdateQueued(ctx context.Context, chat id.ID, m event.Message) error {
	if err := s.checkPrompt(&Prompt{Text: m.Text, Rich: m.Rich, Attachments: m.Attachments}); err != nil {
		return err
	}
	if err := jail(s.reach(chat), m.Attachments); err != nil {
		return err
	}
	stored, err := s.host.keep(ctx, m.Attachments)
	if err != nil {
		return err
	}
	return s.do(ctx, false, func(s *Session) error {
		old, err := s.queued(chat, m.ID)
		if err != nil {
			return err
		}
		old.Text, old.Command, old.Attachments, old.Rich = m.Text, m.Command, stored, m.Rich
		old.Settings, old.KeepEffort = merged(old.Settings, m.Settings), m.KeepEffort
		s.emit(chat, id.Nil, &event.MessageUpdated{Message: old})
		return nil
	})
}

// RemoveQueued takes a waiting message back. It reports whether it waited.
func (s *Session) RemoveQueued(ctx context.Context, chat, message id.ID, by event.Actor) (removed bool, err error) {
	var taken bool
	err = s.do(ctx, false, func(s *Session) error {
		m, err := s.queued(chat, message)
		if err != nil {
			return nil
		}
		taken = true
		s.emit(chat, id.Nil, &event.MessageRemoved{ID: m.ID, Why: event.RemovedByUser, By: by, Turn: m.Turn})
		return nil
	})
	if err != nil {
		return false, err // it may still run when ctx ended
	}
	return taken, nil
}

// ReorderQueue puts the listed messages first, in that order.
func (s *Session) ReorderQueue(ctx context.Context, chat id.ID, order []id.ID, by event.Actor) error {
	if len(order) > MaxQueue {
		return fmt.Errorf("%d messages to order: %w", len(order), ErrTooLarge)
	}
	return s.do(ctx, false, func(s *Session) error {
		if s.work.Chat(chat) == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		s.emit(chat, id.Nil, &event.QueueReordered{Order: order, By: by})
		return nil
	})
}
