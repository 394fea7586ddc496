package acp

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// edits works out what a call's diffs change in the files as they are now,
// before the call runs. What cannot be worked out, such as a file outside of
// the working directories, is left out: the paths are told in any case.
func (m *mapper) edits(c *call) []event.FileEdit {
	var out []event.FileEdit
	for _, d := range c.diffs {
		after, ok := m.after(&d, c)
		if !ok {
			continue
		}
		if e, err := m.dirs.Edit(d.Path, after); err == nil {
			out = append(out, e)
		}
	}
	return out
}

// after is the text that a file will have. A diff has either whole texts or
// only the piece that changes.
func (m *mapper) after(d *toolContent, c *call) (string, bool) {
	if d.Old == nil || *d.Old == "" {
		return d.New, true
	}
	b, err := m.dirs.Load(d.Path, maxFile)
	if err != nil {
		return d.New, errors.Is(err, fs.ErrNotExist)
	}
	now, n := string(b), 1
	if now == *d.Old {
		return d.New, true
	}
	var in struct {
		All bool `json:"replace_all"`
	}
	if decode(c.input, &in) == nil && in.All {
		n = -1
	}
	if !strings.Contains(now, *d.Old) {
		return "", false
	}
	return strings.Replace(now, *d.Old, d.New, n), true
}
