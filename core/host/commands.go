package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// Update changes what is present in u; of settings, the fields that are not
// empty. A change that changes nothing causes no event. A mode change settles
// the approvals that the new mode decides.
func (s *Session) Update(ctx context.Context, u *event.SessionUpdated) error {
	change := *u
	if change.Title != nil {
		title := clipTitle(*change.Title)
		change.Title = &title
	}
	if change.Settings != nil && change.Settings.Mode != "" {
		if err := checkMode(change.Settings.Mode); err != nil {
			return err
		}
	}
	if change.Dirs != nil {
		var err error
		if change.Dirs, err = s.host.cleanDirs(change.Dirs); err != nil {
			return err
		}
	}
	for k, v := range change.Meta {
		if len(k) > MaxName || len(v) > MaxMeta {
			return fmt.Errorf("meta %.80q of %d bytes: %w", k, len(v), ErrTooLarge)
		}
	}
	if err := checkAliases(change.Aliases); err != nil {
		return err
	}
	return s.do(ctx, false, func(s *Session) error {
		c := change // do may run again in a fresh session
		info := &s.work.Info
		c.Title = news(c.Title, info.Title)
		if c.Settings != nil {
			whole := merged(info.Settings, *c.Settings)
			c.Settings = news(&whole, info.Settings)
		}
		c.Archived, c.Unread, c.Closed = news(c.Archived, info.Archived), news(c.Unread, info.Unread), news(c.Closed, info.Closed)
		c.Owner = news(c.Owner, info.Owner)
		if slices.Equal(c.Dirs, info.Dirs) {
			c.Dirs = nil
		} else if c.Dirs != nil && s.work.Running() {
			return fmt.Errorf("the working directories cannot change now: %w", ErrBusy)
		}
		if c.Title == nil && c.Settings == nil && c.Archived == nil && c.Unread == nil && c.Closed == nil && c.Owner == nil &&
			c.Dirs == nil && len(c.Aliases) == 0 && len(c.Meta) == 0 {
			return nil
		}
		if c.Closed != nil && *c.Closed {
			s.quiet(c.By)
		}
		was := info.Dirs
		s.emit(id.Nil, id.Nil, &c)
		if c.Dirs != nil {
			s.chatsFollow(c.By, was)
		}
		if c.Title != nil {
			s.autoTitle = ""
		}
		if c.Dirs != nil {
			for _, r := range s.chats { // the agent's process has the old directory
				r.drop()
			}
		}
		if c.Settings != nil {
			s.configure()
			s.recheck()
		}
		return nil
	})
}

// checkAliases bounds the names that clients choose.
func checkAliases(names map[string]string) error {
	for _, name := range names {
		if len(name) > MaxName {
			return fmt.Errorf("an id of %d bytes, at most %d: %w", len(name), MaxName, ErrTooLarge)
		}
	}
	return nil
}

// news is v unless it is what there is already.
func news[T comparable](v *T, old T) *T {
	if v == nil || *v == old {
		return nil
	}
	return v
}

// configure tells the agents of running conversations the new settings.
func (s *Session) configure() {
	settings := s.work.Info.Settings
	for _, r := range s.chats {
		if r.conv == nil {
			continue
		}
		err := r.conv.tell("configure", func(ctx context.Context, c agent.Conversation) error {
			if conf, ok := c.(agent.Configurer); ok {
				if err := conf.Configure(ctx, settings); !errors.Is(err, agent.ErrUnsupported) {
					return err
				}
			}
			return nil // the next prompt carries the settings
		})
		if err != nil {
			s.crashed(r, err)
		}
	}
}

// quiet drops the queues and ends the running turns.
func (s *Session) quiet(by event.Actor) {
	for _, c := range s.work.Chats {
		s.dropQueue(c.ID, by)
	}
	for _, c := range s.running() {
		if r := s.chatRun(c.ID); r.parent == nil && !r.turn.IsNil() {
			s.interrupt(r, by)
		}
	}
}

// Close puts the session away: its running turn ends as cancelled, its agents
// stop. History stays, and the next prompt opens it again.
func (s *Session) Close(ctx context.Context, by event.Actor) error {
	closed := true
	if err := s.Update(ctx, &event.SessionUpdated{By: by, Closed: &closed}); err != nil {
		return err
	}
	return s.do(ctx, false, func(s *Session) error {
		for _, r := range s.chats {
			if r.turn.IsNil() {
				r.drop()
			}
		}
		return nil
	})
}

// UpdateChat changes what is present in u.
func (s *Session) UpdateChat(ctx context.Context, chat id.ID, u *event.ChatUpdated) error {
	change := *u
	if change.Title != nil {
		title := clipTitle(*change.Title)
		change.Title = &title
	}
	if err := checkAliases(change.Aliases); err != nil {
		return err
	}
	return s.do(ctx, false, func(s *Session) error {
		c, u := s.work.Chat(chat), change
		if c == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		u.Title, u.Archived, u.Unread = news(u.Title, c.Title), news(u.Archived, c.Archived), news(u.Unread, c.Unread)
		if u.Title == nil && u.Archived == nil && u.Unread == nil && len(u.Aliases) == 0 {
			return nil
		}
		u.Conversation, u.ForkOf, u.ForkAt, u.ForkEnd, u.Dirs = nil, nil, nil, nil, nil
		s.emit(chat, id.Nil, &u)
		return nil
	})
}

// SetDraft shares what a person is typing.
func (s *Session) SetDraft(ctx context.Context, chat id.ID, d *event.DraftChanged) error {
	if len(d.Text)+len(d.Rich) > MaxDraft {
		return fmt.Errorf("draft of %d bytes, at most %d: %w", len(d.Text)+len(d.Rich), MaxDraft, ErrTooLarge)
	}
	return s.do(ctx, false, func(s *Session) error {
		c := s.work.Chat(chat)
		if c == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		if c.Draft == nil && d.Text == "" && d.Rich == nil || c.Draft != nil && c.Draft.Text == d.Text && string(c.Draft.Rich) == string(d.Rich) {
			return nil
		}
		s.emit(chat, id.Nil, d)
		return nil
	})
}

func checkTools(tools []event.ClientTool) error {
	if len(tools) > MaxTools {
		return fmt.Errorf("%d client tools, at most %d: %w", len(tools), MaxTools, ErrTooLarge)
	}
	size := 0
	for _, t := range tools {
		size += len(t.Name) + len(t.Description) + len(t.Schema)
		if t.Name == "" || len(t.Name) > MaxName {
			return fmt.Errorf("%w: a client tool has no name, or one that is too long", ErrInvalid)
		}
	}
	if size > MaxToolBytes {
		return fmt.Errorf("client tools of %d bytes, at most %d: %w", size, MaxToolBytes, ErrTooLarge)
	}
	return nil
}

// SetTools replaces the tools that a client runs for the session.
func (s *Session) SetTools(ctx context.Context, set *event.ClientToolsSet) error {
	if err := checkTools(set.Tools); err != nil {
		return err
	}
	return s.do(ctx, false, func(s *Session) error {
		s.emit(id.Nil, id.Nil, set)
		s.offerTools()
		return nil
	})
}

// AddChat adds a chat beside the default one and returns its id.
func (s *Session) AddChat(ctx context.Context, info event.ChatInfo, by event.Actor) (id.ID, error) {
	return s.addChat(ctx, info, by, place{})
}

// nameOrigin notes what the chat is called that another one comes from.
func (s *Session) nameOrigin(info *event.ChatInfo) {
	if from := s.work.Chat(info.Origin.Chat); from != nil {
		info.Origin.Aliases, info.Origin.Role = from.Aliases, event.RoleOther
		if from.ID == s.work.Default {
			info.Origin.Role = event.RoleDefault
		}
	}
}

// DiscardIfUnused deletes a session that never had a turn. It reports whether
// it did.
func (s *Session) DiscardIfUnused(ctx context.Context) (bool, error) {
	st := s.State()
	if !st.Info.Provisional || len(st.Chats) != 1 || st.Chats[0].Count > 0 || st.Chats[0].Active != nil {
		return false, nil
	}
	err := s.host.DeleteSession(ctx, s.id, event.Gateway)
	return err == nil, err
}

// stop ends the session for the host's end: running turns may go on until
// ctx ends, then they are cancelled.
func (s *Session) stop(ctx context.Context) {
	sub := s.hub.Subscribe(s.hub.Last())
	defer sub.Close()
	for s.State().Running() {
		if _, err := sub.Next(ctx); err != nil {
			break
		}
	}
	last := func() {
		s.cutOff(event.TurnCancelled, &event.Error{Code: event.CodeInterrupted, Message: "the gateway stopped"})
		s.leave()
	}
	select {
	case s.urgent <- last:
		<-s.gone
	case <-s.gone:
	}
}
