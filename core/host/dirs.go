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
		added, err := cleanDirs([]string{c.Add})
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
		s.emit(id.Nil, id.Nil, &event.SessionUpdated{By: c.By, Dirs: dirs})
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
