package host

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// ChangeDir adds a working directory, takes one out, or puts one in the place
// of another.
type ChangeDir struct {
	// Remove is taken out, Add is added at the end; with both, Add takes the place
	// of Remove. Absolute; "" for none.
	Remove, Add string
	By          event.Actor
}

// ChangeDir changes a session's working directories. The agents' processes
// start again with the next prompt, and go on with their conversations in the
// new directories. The first one, where they run, can be replaced but not taken
// out (ErrInvalid). A directory that is not there is ErrBadDir, a turn that runs
// ErrBusy. It reports whether anything changed.
func (s *Session) ChangeDir(ctx context.Context, c ChangeDir) (changed bool, err error) {
	if c.Add != "" {
		added, err := s.host.cleanDirs([]string{c.Add})
		if err != nil {
			return false, err
		}
		c.Add = added[0]
	}
	if c.Remove != "" {
		c.Remove = filepath.Clean(c.Remove)
	}
	err = s.do(ctx, false, func(s *Session) error {
		dirs, err := c.apply(s.work.Info.Dirs)
		if changed = err == nil && !slices.Equal(dirs, s.work.Info.Dirs); !changed {
			return err
		}
		if s.work.Running() {
			return fmt.Errorf("the working directories cannot change now: %w", ErrBusy)
		}
		was := s.work.Info.Dirs
		s.emit(id.Nil, id.Nil, &event.SessionUpdated{By: c.By, Dirs: dirs})
		s.chatsFollow(c.By, was)
		for _, r := range s.chats { // the agent's process has the old directories
			r.drop()
		}
		return nil
	})
	return changed, err
}

// apply gives the directories after the change.
func (c *ChangeDir) apply(dirs []string) ([]string, error) {
	at, there := slices.Index(dirs, c.Remove), slices.Contains(dirs, c.Add)
	switch {
	case c.Remove == "" && !there && c.Add != "":
		if len(dirs) >= MaxDirs {
			return nil, fmt.Errorf("a session has %d working directories at most: %w", MaxDirs, ErrTooLarge)
		}
		return append(slices.Clip(dirs), c.Add), nil
	case c.Remove == "" || at < 0 || c.Add == c.Remove:
		return dirs, nil
	case c.Add == "" && at == 0:
		return nil, fmt.Errorf("the first working directory is where the agent runs: it can only be replaced: %w", ErrInvalid)
	case c.Add == "" || slices.Contains(dirs[:at], c.Add):
		return slices.Delete(slices.Clone(dirs), at, at+1), nil
	}
	out := slices.Clone(dirs)
	out[at] = c.Add
	rest := slices.DeleteFunc(slices.Clone(out[at+1:]), func(d string) bool { return d == c.Add })
	return append(out[:at+1], rest...), nil
}

// ChangeChatDir adds one of the session's working directories to those of a
// chat, or takes one out. The chat's agent starts again with the next prompt and
// goes on with its conversation. The first directory, where it runs, stays
// (ErrInvalid), and one that is not the session's is ErrInvalid too. While a turn
// runs in the chat it is ErrBusy. It reports whether anything changed.
func (s *Session) ChangeChatDir(ctx context.Context, chat id.ID, c ChangeDir) (changed bool, err error) {
	if c.Remove != "" {
		c.Remove = filepath.Clean(c.Remove)
	}
	if c.Add != "" {
		c.Add = filepath.Clean(c.Add)
	}
	err = s.do(ctx, false, func(s *Session) error {
		changed = false
		at := s.work.Chat(chat)
		if at == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		was := dirsOf(s.work, at)
		now := was
		switch i := slices.Index(was, c.Remove); {
		case c.Add != "":
			if err := within(s.work.Info.Dirs, []string{c.Add}); err != nil {
				return err
			}
			if !slices.Contains(was, c.Add) {
				now = append(slices.Clip(was), c.Add)
			}
		case i == 0:
			return fmt.Errorf("%w: the first working directory is where the agent runs", ErrInvalid)
		case i > 0:
			now = slices.Delete(slices.Clone(was), i, i+1)
		}
		if slices.Equal(at.Dirs, now) || c.Add == "" && slices.Equal(was, now) {
			return nil
		}
		r := s.chatRun(chat)
		switch {
		case at.Active != nil:
			return fmt.Errorf("the working directories cannot change now: %w", ErrBusy)
		case at.Origin.Kind == event.OriginSubagent:
			return fmt.Errorf("%w: a subagent works where its agent does", ErrUnsupported)
		}
		changed = true
		s.emit(chat, id.Nil, &event.ChatUpdated{By: c.By, Dirs: now})
		if !slices.Equal(was, now) {
			r.drop()
		}
		return nil
	})
	return changed, err
}

// chatsFollow has the chats with directories of their own follow a change of the
// session's: what it lost they lose, and its new first one takes the place of
// the old.
func (s *Session) chatsFollow(by event.Actor, was []string) {
	now := s.work.Info.Dirs
	for _, c := range slices.Clone(s.work.Chats) {
		if len(c.Dirs) == 0 {
			continue
		}
		var dirs []string
		for i, d := range c.Dirs {
			lost := slices.Contains(was, d) && !slices.Contains(now, d)
			if lost && i == 0 && d == was[0] {
				d, lost = now[0], false
			}
			if !lost && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
		if len(dirs) == 0 {
			dirs = now
		}
		if !slices.Equal(dirs, c.Dirs) {
			s.emit(c.ID, id.Nil, &event.ChatUpdated{By: by, Dirs: dirs})
		}
	}
}

// dirs are the directories that the agent of a run works in.
func (s *Session) dirs(r *run) []string {
	if c := s.work.Chat(r.agentOf().chat); c != nil {
		return dirsOf(s.work, c)
	}
	return s.work.Info.Dirs
}

// reach is where the files may be that a person sends to a chat, Nil for the
// default one: the session's directories and the chat's.
func (s *Session) reach(chat id.ID) []string {
	st := s.State()
	if chat.IsNil() {
		chat = st.Default
	}
	c := st.Chat(chat)
	if c == nil || len(c.Dirs) == 0 {
		return st.Info.Dirs
	}
	return append(slices.Clone(c.Dirs), st.Info.Dirs...)
}
