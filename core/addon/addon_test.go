package addon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/files"
)

// tree is a source in memory, by path; nil is a link.
type tree map[string][]byte

func (t tree) List(_ context.Context, at string) ([]Entry, error) {
	kinds := map[string]Kind{}
	for p, content := range t {
		rest, ok := strings.CutPrefix(p, strings.TrimPrefix(at+"/", "/"))
		if !ok {
			continue
		}
		name, _, folder := strings.Cut(rest, "/")
		switch {
		case folder:
			kinds[name] = Folder
		case content == nil:
			kinds[name] = Other
		default:
			kinds[name] = File
		}
	}
	var out []Entry
	for name, k := range kinds {
		out = append(out, Entry{name, k})
	}
	return out, nil
}

func (t tree) Read(_ context.Context, at string) ([]byte, error) {
	if b, ok := t[at]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("no %s", at)
}

func open(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "addons")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func onDisk(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

var whole = tree{
	".plugin/plugin.json":         []byte(`{"name":"tools","version":"1.2.0"}`),
	"commands/hello.md":           []byte("---\ndescription: \"Says hello\"\nargument-hint: '[name]'\n---\nHello $1"),
	"commands/more/deep.md":       []byte("no front matter"),
	"commands/notes.txt":          []byte("none"),
	"skills/dance/SKILL.md":       []byte("---\nname: dance\ndescription: >\n  Dances\n  well\nuser-invocable: false\n---\n"),
	"skills/empty/README.md":      []byte("none"),
	"agents/helper.agent.md":      []byte("---\ndescription: Helps\nmodel: small\ntools: [read, \"write\"]\n---\nHelp."),
	"rules/style.instructions.md": []byte("---\r\napplyTo:\r\n  - '**/*.go'\r\nalwaysApply: true\r\n---\r\n"),
	"hooks/hooks.json":            []byte(`{}`),
	"hooks/run.sh":                []byte("#!/bin/sh\n"),
	".git/HEAD":                   []byte("ref"),
}

func TestACopyHasWhatThePluginHas(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	c, err := s.Copy(t.Context(), "client", "called", whole)
	if err != nil {
		t.Fatal(err)
	}
	want := &Contents{Name: "tools", Version: "1.2.0", Items: []Item{
		{Kind: Command, Name: "hello", Path: "commands/hello.md", Description: "Says hello", Hint: "[name]"},
		{Kind: Command, Name: "more:deep", Path: "commands/more/deep.md"},
		{Kind: Skill, Name: "dance", Path: "skills/dance/SKILL.md", Description: "Dances well", NotByUser: true},
		{Kind: Subagent, Name: "helper", Path: "agents/helper.agent.md", Description: "Helps", Model: "small", Tools: []string{"read", "write"}},
		{Kind: Rule, Name: "style", Path: "rules/style.instructions.md", Always: true, Globs: []string{"**/*.go"}},
		{Kind: Hook, Name: "hooks", Path: "hooks/hooks.json"},
	}}
	if !reflect.DeepEqual(c.Contents, want) {
		t.Errorf("the contents: %+v", c.Contents)
	}
	if filepath.Base(c.Dir) != "tools" || !strings.HasPrefix(c.Dir, dir) {
		t.Errorf("it is in %s", c.Dir)
	}
	for p, content := range whole {
		b, err := os.ReadFile(filepath.Join(c.Dir, p))
		if ignored := strings.HasPrefix(p, ".git/"); ignored != (err != nil) || !ignored && string(b) != string(content) {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if info, err := os.Stat(filepath.Join(c.Dir, "hooks/run.sh")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a script: %v, %v", info, err)
	}
}

func TestTheSameContentIsKeptOnceUntilNobodyHoldsIt(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	a, err := s.Copy(t.Context(), "client", "x", whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Copy(t.Context(), "client", "y", whole)
	if err != nil || a.ID != b.ID || onDisk(t, dir) != 1 {
		t.Fatalf("%v, %v, %d kept", a.ID, err, onDisk(t, dir))
	}
	other, err := s.Copy(t.Context(), "client", "x", tree{"commands/a.md": []byte("A")})
	if err != nil || other.ID == a.ID || path.Base(other.ID) != "x" {
		t.Fatalf("%+v, %v", other, err)
	}
	a.Release()
	a.Release()
	c, err := s.Hold(b.ID)
	if err != nil || c.Dir != b.Dir {
		t.Fatalf("%+v, %v", c, err)
	}
	b.Release()
	c.Release()
	if _, err := s.Hold(b.ID); !errors.Is(err, ErrNotFound) || onDisk(t, dir) != 1 {
		t.Errorf("what nobody holds: %v, %d kept", err, onDisk(t, dir))
	}
	// A killed gateway leaves copies, finished and not.
	if err := os.Mkdir(filepath.Join(dir, "new-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Hold(other.ID); err != nil {
		t.Fatal(err)
	}
	if err := again.Sweep(); err != nil || onDisk(t, dir) != 1 {
		t.Errorf("%v, %d kept", err, onDisk(t, dir))
	}
	for _, id := range []string{"", "../..", other.ID + "/..", strings.Repeat("0", 64) + "/x"} {
		if _, err := again.Hold(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestWhatIsNoPluginIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	many, deep := tree{}, strings.Repeat("d/", MaxDepth+2)
	for i := range MaxFiles + 1 {
		many[fmt.Sprintf("f%d", i)] = []byte("x")
	}
	large := make([]byte, MaxFile)
	for name, c := range map[string]struct {
		src  tree
		want error
	}{
		"a link":         {tree{"commands/a.md": nil}, ErrInvalid},
		"out of it":      {tree{"..": []byte("x")}, ErrInvalid},
		"a strange name": {tree{"a\\b": []byte("x")}, ErrInvalid},
		"no text":        {tree{"a\xff": []byte("x")}, ErrInvalid},
		"many files":     {many, ErrTooLarge},
		"deep folders":   {tree{deep + "x": []byte("x")}, ErrTooLarge},
		"a large file":   {tree{"a": append(large, 'x')}, ErrTooLarge},
		"large in all":   {tree{"a": large, "b": large, "c": []byte("x")}, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := open(t)
			if _, err := s.Copy(t.Context(), "client", "x", c.src); !errors.Is(err, c.want) || onDisk(t, dir) != 0 {
				t.Errorf("%v, %d kept", err, onDisk(t, dir))
			}
		})
	}
	s, dir := open(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Copy(gone, "client", "x", whole); !errors.Is(err, context.Canceled) || onDisk(t, dir) != 0 {
		t.Errorf("nobody waits for it: %v, %d kept", err, onDisk(t, dir))
	}
}

func TestAPluginOfThisMachineStaysBehindTheFence(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	dir, secret := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "commands"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "commands", "a.md"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := files.New(secret)
	c, err := s.Copy(t.Context(), "client", "mine", FromFiles(f, dir))
	if err != nil || len(c.Contents.Items) != 1 || filepath.Base(c.Dir) != "mine" {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := s.Copy(t.Context(), "client", "mine", FromFiles(f, secret)); !errors.Is(err, files.ErrDenied) {
		t.Errorf("a fenced folder: %v", err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "skills")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Copy(t.Context(), "client", "mine", FromFiles(f, dir)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a link: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"name":"a","version":"1.0.0"}`))
	f.Add([]byte(`{"name":7}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, version := manifest(b)
		if len(name) > maxText || len(version) > maxText {
			t.Errorf("%d and %d bytes", len(name), len(version))
		}
		if n := folderName(name, "x"); !copyName.MatchString(strings.Repeat("0", 64) + "/" + n) {
			t.Errorf("a folder cannot be called %q", n)
		}
	})
}

func FuzzFrontMatter(f *testing.F) {
	for _, b := range whole {
		f.Add(b)
	}
	f.Add([]byte("---\na: |\n  # x\n- b\n---"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Contents{}
		c.add(Rule, "x", "rules/x.md", frontMatter(b))
		for _, text := range append(append(c.Items[0].Globs, c.Items[0].Tools...), c.Items[0].Name, c.Items[0].Description) {
			if len(text) > maxText || strings.Contains(text, "\n") {
				t.Errorf("%q", text)
			}
		}
	})
}

// One client leaves room for others, and gets back what goes.
func TestOneClientHasAShareOfTheCopies(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	plugin := func(n int) tree { return tree{"commands/a.md": fmt.Append(nil, "A", n)} }
	var last *Copy
	for n := range MaxShare {
		c, err := s.Copy(t.Context(), "me", "x", plugin(n))
		if err != nil {
			t.Fatal(err)
		}
		last = c
	}
	if _, err := s.Copy(t.Context(), "me", "x", plugin(MaxShare)); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the share: %v", err)
	}
	again, err := s.Copy(t.Context(), "me", "x", plugin(0))
	if err != nil {
		t.Errorf("what is there already: %v", err)
	}
	again.Release()
	other, err := s.Copy(t.Context(), "you", "x", plugin(MaxShare))
	if err != nil {
		t.Errorf("another client: %v", err)
	}
	other.Release()
	last.Release()
	if _, err := s.Copy(t.Context(), "me", "x", plugin(MaxShare)); err != nil {
		t.Errorf("after one went: %v", err)
	}
	if s.shares["me"] != MaxShare || len(s.shares) != 1 {
		t.Errorf("counted: %v", s.shares)
	}
}
