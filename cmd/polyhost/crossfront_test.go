package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/transports/wiretest"
)

const fragmentsDir = "../../testdata/crossfront/fragments"

// fragments are the steps by which clients of each front do their part: by
// front, then by what is done.
type fragments map[string]map[string]string

func loadFragments(t *testing.T) fragments {
	t.Helper()
	all := fragments{}
	for _, front := range settings.Fronts {
		archive, err := txtar.ParseFile(filepath.Join(fragmentsDir, front+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		all[front] = map[string]string{}
		for _, f := range archive.Files {
			all[front][f.Name] = string(f.Data)
		}
	}
	return all
}

// composer writes a script whose clients are of several fronts.
type composer struct {
	t    *testing.T
	all  fragments
	text strings.Builder
}

func compose(t *testing.T) *composer { return &composer{t: t, all: loadFragments(t)} }

// party is a client of a front, by name.
type party struct{ front, name string }

// do adds what a party does. In a fragment, @ is the party's name and words
// replaces others, two by two.
func (c *composer) do(p party, what string, words ...string) {
	c.t.Helper()
	steps, ok := c.all[p.front][what]
	if !ok {
		c.t.Fatalf("%s has no fragment %q", p.front, what)
	}
	steps = strings.NewReplacer(append([]string{"@", p.name}, words...)...).Replace(steps)
	c.section(p.name+" ("+p.front+"): "+what, steps)
}

// both adds the same for two parties.
func (c *composer) both(a, b party, what string, words ...string) {
	c.t.Helper()
	c.do(a, what, words...)
	c.do(b, what, words...)
}

// section adds steps as they are.
func (c *composer) section(name, steps string) {
	c.text.WriteString("-- " + name + " --\n" + strings.TrimSpace(steps) + "\n\n")
}

// play runs the script, and shows it when it fails.
func (c *composer) play(g wiretest.Gateway) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "script.txtar")
	if err := os.WriteFile(file, []byte(c.text.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Log(c.text.String())
		}
	})
	wiretest.RunFile(c.t, g, file, "")
}

// pairs runs a test for each ordered pair of fronts.
func pairs(t *testing.T, test func(t *testing.T, a, b party)) {
	for _, first := range settings.Fronts {
		for _, second := range settings.Fronts {
			if first == second {
				continue
			}
			t.Run(first+"-"+second, func(t *testing.T) {
				t.Parallel()
				test(t, party{first, "First"}, party{second, "Second"})
			})
		}
	}
}

// An approval that a turn of one front needs is given on another: both see the
// whole turn, and hear of the outcome once.
func TestCrossFrontApproval(t *testing.T) {
	t.Parallel()
	g := judged{polyhost}
	pairs(t, func(t *testing.T, a, b party) {
		prompt := []string{"PROMPT", `run echo crossed\nsay the end`}
		c := compose(t)
		c.both(a, b, "connect")
		c.do(a, "open")
		c.do(a, "prompt", prompt...)
		c.do(a, "approval opened")
		c.do(b, "find", prompt...)
		c.do(b, "approval found")
		c.do(b, "approve")
		c.do(a, "approval heard")
		c.do(a, "deny too late")
		c.both(a, b, "approved turn")
		c.play(g)
	})
}

// A question that a turn of one front asks is answered on another.
func TestCrossFrontQuestion(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, a, b party) {
		prompt := []string{"PROMPT", `ask Which colour? | Red | Blue`}
		c := compose(t)
		c.both(a, b, "connect")
		c.do(a, "open")
		c.do(a, "prompt", prompt...)
		c.do(a, "question opened")
		c.do(b, "find", prompt...)
		c.do(b, "question found")
		c.do(b, "answer")
		c.do(a, "answer heard")
		c.both(a, b, "answered turn")
		c.play(judged{polyhost})
	})
}

// everyone is a client of each front, named after it.
func everyone() []party {
	var all []party
	for _, f := range settings.Fronts {
		all = append(all, party{f, strings.ToUpper(f[:1]) + f[1:]})
	}
	return all
}

// each runs a test for each front, with the clients of the others behind its own.
func each(t *testing.T, test func(t *testing.T, a party, others []party)) {
	for i, front := range settings.Fronts {
		t.Run(front, func(t *testing.T) {
			t.Parallel()
			all := everyone()
			all = append(all[i:], all[:i]...)
			test(t, all[0], all[1:])
		})
	}
}

// A session of any front is in the lists of all, under its newest title, until
// one of them deletes it.
func TestCrossFrontLists(t *testing.T) {
	t.Parallel()
	g := judged{polyhost}
	each(t, func(t *testing.T, a party, others []party) {
		c := compose(t)
		c.do(a, "connect")
		for _, b := range others {
			c.do(b, "connect")
		}
		c.do(a, "open")
		c.do(a, "turn", "PROMPT", "say hello", "NUMBER", "1")
		everybody := append([]party{a}, others...)
		title := "say hello"
		for _, p := range everybody {
			c.do(p, "listed", "TITLE", title)
		}
		for _, p := range everybody {
			if p.front == "bae" { // it has no titles
				continue
			}
			title = "Called so by " + p.front
			c.do(p, "rename", "TITLE", title)
			for _, q := range everybody {
				c.do(q, "listed", "TITLE", title)
			}
		}
		deletes := others[0]
		if deletes.front == "bae" { // it closes, and keeps
			deletes = others[1]
		}
		c.do(deletes, "delete")
		for _, p := range everybody {
			c.do(p, "gone")
		}
		c.play(g)
	})
}

// What a session of any front was about can be read on all the others, also
// after the gateway was started anew.
func TestCrossFrontHistory(t *testing.T) {
	t.Parallel()
	g := judged{polyhost}
	turns := []string{`think hm\nsay turn one`, `read note.txt\nsay turn two`, `plan a; b\nsay turn three`,
		`spawn helper say from below\nsay turn four`, `usage 12 34\nsay turn five`}
	each(t, func(t *testing.T, a party, others []party) {
		c := compose(t)
		c.section("work/note.txt", "kept for later")
		c.do(a, "connect")
		c.do(a, "open")
		for i, text := range turns {
			c.do(a, "turn", "PROMPT", text, "NUMBER", strconv.Itoa(i+1))
		}
		title := []string{"TITLE", "think hm"}
		for _, b := range others {
			c.do(b, "connect")
			c.do(b, "look up", title...)
			c.do(b, "history")
		}
		c.section("the gateway starts anew", "gateway restart")
		for _, p := range append([]party{a}, others...) {
			c.do(p, "connect")
			c.do(p, "look up", title...)
			c.do(p, "history")
		}
		c.play(g)
	})
}

// deathWatch is the program; when it was killed, nothing that it started may
// stay behind.
type deathWatch struct {
	*wiretest.Binary
	t *testing.T
}

func (w deathWatch) Kill(p wiretest.Place) error {
	err := w.Binary.Kill(p)
	h := &home{t: w.t, place: p}
	eventually(w.t, "all processes are gone", func() bool { return len(h.processes()) == 0 })
	return err
}

// A gateway killed while one session waits for an approval and another streams
// shows on every front what was finished, the turns closed, and nothing open.
func TestCrossFrontCrash(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a party, others []party) {
		b := others[0]
		if b.front == "bae" { // it shows no deltas
			b = others[1]
		}
		c := compose(t)
		c.both(a, b, "connect")
		c.do(a, "open")
		c.do(a, "prompt", "PROMPT", `say kept\nrun touch ran`)
		c.do(a, "approval opened")
		c.do(b, "open")
		c.do(b, "prompt", "PROMPT", `say whole\nstream 100000 10 1`)
		c.do(b, "streaming")
		c.section("the gateway is killed and starts again", "gateway kill\ngateway start")
		for _, p := range append([]party{a}, others...) {
			c.do(p, "connect")
			title, kept := "say whole", "whole"
			switch {
			case p == a:
				title, kept = "say kept", "kept"
			case p.front == "bae": // it has no titles to look for
				kept = "$re:^(kept|whole)$"
			}
			c.do(p, "look up", "TITLE", title)
			c.do(p, "cut off", "KEPT", kept)
		}
		c.do(a, "turn", "PROMPT", "say again", "NUMBER", "2")
		c.section("what waited for approval did not run", "file ran missing")
		c.play(deathWatch{polyhost, t})
	})
}
