package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// outside has the demo agent run prompts in dir, with no gateway, and keep
// them.
func outside(t *testing.T, keep, dir string, prompts ...string) {
	t.Helper()
	b := &demo.Backend{Keep: keep}
	defer b.Close()
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		if err := c.Prompt(t.Context(), agent.Prompt{Turn: p, Text: p}); err != nil {
			t.Fatal(err)
		}
		for over := false; !over; {
			frames, err := c.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				if f.Kind == agent.Permission {
					_ = c.Answer(t.Context(), agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
				}
				over = f.Kind == agent.TurnEnd
			}
		}
	}
}

// patient is the program, started only when it lists a session.
type patient struct {
	*wiretest.Binary
	t *testing.T
}

func (p patient) Start(place wiretest.Place) (wiretest.Endpoints, error) {
	at, err := p.Binary.Start(place)
	if err != nil {
		return at, err
	}
	h := &home{t: p.t, place: place, at: at}
	eventually(p.t, "a session is listed", func() bool {
		list, err := h.console().Sessions(p.t.Context(), false)
		return err == nil && len(list) > 0
	})
	return at, nil
}

// A conversation that was begun in the agent itself is on every front: listed,
// readable with all that happened in it, and continued by a prompt.
func TestCrossFrontAgentHistory(t *testing.T) {
	t.Parallel()
	turns := []string{"think hm\nsay turn one", "read note.txt\nsay turn two", "plan a; b\nsay turn three",
		"spawn helper say from below\nsay turn four", "usage 12 34\nsay turn five"}
	each(t, func(t *testing.T, a party, others []party) {
		keep, dir := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("kept for later"), 0o600); err != nil {
			t.Fatal(err)
		}
		outside(t, keep, dir, turns...)
		c := compose(t)
		c.section("env", demo.KeepVar+"="+keep)
		title := []string{"TITLE", "think hm"}
		for _, p := range []party{a, others[0]} {
			c.do(p, "connect")
			c.do(p, "look up", title...)
			c.do(p, "history")
		}
		continues := a
		if a.front == "bae" { // its turns need a driver, which only its own sessions have
			continues = others[0]
		}
		c.do(continues, "turn", "PROMPT", "say turn six", "NUMBER", "6")
		script := strings.ReplaceAll(c.text.String(), "${WORK}", dir)
		c.text.Reset()
		c.text.WriteString(script)
		c.play(patient{polyhost, t})
	})
}
