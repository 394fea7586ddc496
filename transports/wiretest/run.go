// Package wiretest runs wire scripts: archives that say what clients send to a
// gateway and what must come back, readable as documentation. docs/testing.md
// describes the language.
//
// It knows transports and JSON, and no protocol. It drives a real gateway: the
// polyhost binary, or in its own tests a small server.
package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// run is one script being run.
type run struct {
	t         *testing.T
	script    *script
	gateway   Gateway
	place     Place
	vars      map[string]any
	endpoints Endpoints
	clients   map[string]*client
	timeout   time.Duration
	running   bool
	faults    []error // what judges found
}

// RunFile runs one script against a fresh gateway. front is the front that
// ${URL} and so on stand for until the script says otherwise.
func RunFile(t *testing.T, g Gateway, file, front string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse(file, front, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := execute(t, g, s); err != nil {
		t.Fatal(err)
	}
}

// Scripts lists the scripts under a folder, with the front that each is about:
// the name of the folder that it lies in.
func Scripts(folder string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".txtar" {
			found[path] = filepath.Base(filepath.Dir(path))
		}
		return err
	})
	return found, err
}

// RunFolders runs every script under the folders, and under those of the path
// list in POLYHOST_WIRE_SCRIPTS, as parallel subtests.
func RunFolders(t *testing.T, g Gateway, folders ...string) {
	t.Helper()
	folders = append(folders, filepath.SplitList(os.Getenv("POLYHOST_WIRE_SCRIPTS"))...)
	for _, folder := range folders {
		scripts, err := Scripts(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.Sorted(maps.Keys(scripts)) {
			front := scripts[file]
			name := front + "/" + strings.TrimSuffix(filepath.Base(file), ".txtar")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				RunFile(t, g, file, front)
			})
		}
	}
}

// execute runs a script and returns the first failure, with its line.
func execute(t *testing.T, g Gateway, s *script) (err error) {
	dir := t.TempDir()
	r := &run{
		t: t, script: s, gateway: g, timeout: defaultTimeout,
		place:   Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"), Env: slices.Clone(s.env), Args: slices.Clone(s.args)},
		clients: map[string]*client{},
	}
	r.vars = map[string]any{"HOME_DIR": r.place.Home, "WORK": r.place.Work}
	defer func() {
		r.cleanUp()
		if err == nil {
			err = errors.Join(r.faults...)
		}
	}()
	if err := errors.Join(os.MkdirAll(r.place.Home, 0o700), os.MkdirAll(r.place.Work, 0o755)); err != nil {
		return err
	}
	for name, data := range s.fixtures {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			return err
		}
	}
	for _, list := range []*[]string{&r.place.Env, &r.place.Args} {
		for i, word := range *list {
			expanded, err := r.expand(word, false)
			if err != nil {
				return fmt.Errorf("%s: env or args: %w", s.file, err)
			}
			(*list)[i] = expanded
		}
	}
	if err := r.start(); err != nil {
		return fmt.Errorf("%s: start the gateway: %w", s.file, err)
	}
	for _, st := range s.steps {
		if err := r.step(st); err != nil {
			return r.failure(st, err)
		}
	}
	return nil
}

func (r *run) start() error {
	e, err := r.gateway.Start(r.place)
	if err != nil {
		return err
	}
	r.running = true
	r.setEndpoints(e)
	return nil
}

func (r *run) cleanUp() {
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		r.shut(name)
	}
	if r.running {
		if err := r.gateway.Stop(r.place); err != nil {
			r.t.Errorf("stop the gateway: %v", err)
		}
	}
}

// shut drops a client's connection and keeps what was wrong with its frames.
func (r *run) shut(name string) {
	c := r.clients[name]
	c.shut()
	delete(r.clients, name)
	for _, fault := range c.faults {
		r.faults = append(r.faults, fmt.Errorf("%s: %s: %w", r.script.file, name, fault))
	}
}

func (r *run) step(st step) error {
	if st.client == "" {
		rest, err := r.expand(st.rest, false)
		if err != nil {
			return err
		}
		return plainVerbs[st.verb](r, rest)
	}
	v := clientVerbs[st.verb]
	rest, err := r.expand(st.rest, v.json)
	if err != nil {
		return err
	}
	c := r.clients[st.client]
	if c == nil && !v.opens {
		return fmt.Errorf("client %s is not connected", st.client)
	}
	return v.do(r, st, c, rest)
}

// failure tells what was expected and what the client had received.
func (r *run) failure(st step, err error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %v\n    step: %s\n", r.script.file, st.line, err, strings.ReplaceAll(st.text, "\n", "\n          "))
	if c := r.clients[st.client]; c != nil {
		c.mu.Lock()
		if c.status != 0 {
			fmt.Fprintf(&b, "    status: %d\n", c.status)
		}
		from := max(0, len(c.frames)-shownFrames)
		fmt.Fprintf(&b, "    %s has received %d frames; \u2713 matched, > the next one to come:\n", st.client, len(c.frames))
		for i := from; i < len(c.frames); i++ {
			mark := " "
			if c.frames[i].matched {
				mark = "\u2713"
			}
			if i == c.next {
				mark = ">"
			}
			fmt.Fprintf(&b, "    %s %d: %s\n", mark, i+1, cut(string(c.frames[i].data)))
		}
		if c.ended {
			fmt.Fprintf(&b, "      then the connection ended: %v\n", c.endErr)
		}
		c.mu.Unlock()
	}
	if log := r.gateway.Log(r.place); log != "" {
		fmt.Fprintf(&b, "    the gateway's log ends with:\n%s", log)
	}
	return errors.New(b.String())
}

// capture keeps what a match has named.
func (r *run) capture(caps map[string]any) {
	for k, v := range caps {
		if n, ok := v.(json.Number); ok {
			v = json.RawMessage(n)
		}
		r.vars[k] = v
	}
}
