package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNoPathLeavesTheDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dirs := Dirs{filepath.Join(root, "a"), filepath.Join(root, "b")}
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "secret"), filepath.Join(dirs[0], "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dirs[0], "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../secret", "link", filepath.Join(root, "secret"), "x/../../secret"} {
		if b, err := dirs.Load(path, 10); err == nil || !strings.Contains(err.Error(), "outside of the working directories") {
			t.Errorf("%s: read %q, %v", path, b, err)
		}
		if err := dirs.Store(path, "y"); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	for _, path := range []string{"pipe", ".", "none"} {
		if b, err := dirs.Load(path, 10); err == nil {
			t.Errorf("%s: read %q", path, b)
		}
	}
	if err := dirs.Store(filepath.Join(dirs[1], "deep/er.txt"), "z"); err != nil {
		t.Error(err)
	}
	if b, err := dirs.Load("../b/deep/er.txt", 10); err != nil || string(b) != "z" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestEditsShowWhatChanges(t *testing.T) {
	t.Parallel()
	dirs := Dirs{t.TempDir()}
	write := func(name, text string) {
		if err := dirs.Store(name, text); err != nil {
			t.Fatal(err)
		}
	}
	write("old.txt", "one\ntwo\n")
	write("huge.txt", strings.Repeat("x", MaxEdit+1))
	write("binary", "\xff\x00")
	for _, test := range []struct {
		name, kind     string
		added, removed int
		texts          bool
	}{
		{"new.txt", "create", 2, 0, true},
		{"old.txt", "edit", 1, 1, true},
		{"huge.txt", "edit", 0, 0, false},
		{"binary", "edit", 0, 0, false},
	} {
		e, err := dirs.Edit(test.name, "one\nthree\n")
		if err != nil || e.Kind != test.kind || e.Added != test.added || e.Removed != test.removed || (e.After != nil) != test.texts ||
			e.Path != filepath.Join(dirs[0], test.name) {
			t.Errorf("%s: %+v, %v", test.name, e, err)
		}
		if test.texts && !strings.Contains(e.Patch, "+three\n") {
			t.Errorf("%s: patch %q", test.name, e.Patch)
		}
	}
	if e, err := dirs.Edit("../x", ""); err == nil {
		t.Errorf("outside: %+v", e)
	}
}
