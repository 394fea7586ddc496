package demo

import (
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type readInput struct {
	Path string `json:"path"`
}

// write replaces or creates a file.
func (s *script) write(path, text string) error {
	return s.use(call{
		tool: agent.Tool{Name: toolWrite, Tag: event.TagWrite, Input: marshal(writeInput{path, text + "\n"})},
		look: func(t *agent.Tool) error {
			var in writeInput
			if err := input(t, &in); err != nil {
				return err
			}
			t.Title, t.Paths = in.Path, []string{in.Path}
			edit, err := s.files().Edit(in.Path, in.Content)
			if err != nil {
				return err
			}
			t.Edits = []event.FileEdit{edit}
			return nil
		},
		run: func(t agent.Tool) (agent.Result, error) {
			var in writeInput
			if err := input(&t, &in); err != nil {
				return failed(err), nil
			}
			// The file may have changed while somebody thought it over.
			edit, err := s.files().Edit(in.Path, in.Content)
			if err == nil {
				err = s.files().Store(in.Path, in.Content)
			}
			if err != nil {
				return failed(err), nil
			}
			return agent.Result{Output: fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), Edits: []event.FileEdit{edit}}, nil
		},
	})
}

func (s *script) read(path string) error {
	return s.use(call{
		tool: agent.Tool{Name: toolRead, Tag: event.TagRead, Input: marshal(readInput{path})},
		look: func(t *agent.Tool) error {
			t.Title, t.Paths = path, []string{path}
			_, _, err := s.files().Locate(path)
			return err
		},
		run: func(agent.Tool) (agent.Result, error) {
			b, err := s.files().Load(path, maxRead)
			if err != nil {
				return failed(err), nil
			}
			text := string(b)
			if len(b) > maxRead {
				text = text[:wholeRunes(b[:maxRead])] + "\n[the rest is left out]\n"
			}
			return agent.Result{Output: strings.ToValidUTF8(text, "\ufffd")}, nil
		},
	})
}

// files are what the script may touch.
func (s *script) files() files.Dirs { return s.t.c.dirs }
