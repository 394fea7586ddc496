package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// tree makes a directory with files in it; a name that ends in a slash is a
// directory.
func tree(t testing.TB, content map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if name[len(name)-1] == '/' {
			err = os.MkdirAll(path, 0o777)
		} else {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("want %v, got %v", target, err)
	}
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadListAndStat(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"b.txt": "hello", "a/": "", "sub/c": "x"})
	if err := os.Symlink("a", filepath.Join(dir, "toA")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "b.txt"), filepath.Join(dir, "toB")); err != nil {
		t.Fatal(err)
	}
	f := New()
	if b, err := f.Read(dir + "/toB"); err != nil || string(b) != "hello" {
		t.Errorf("read through a link: %q, %v", b, err)
	}
	list, err := f.List(dir)
	if err != nil || fmt.Sprint(list) != "[{a true} {b.txt false} {sub true} {toA true} {toB false}]" {
		t.Errorf("listed %v, %v", list, err)
	}
	info, err := f.Stat(dir+"/toB", true)
	if err != nil || info.Path != dir+"/b.txt" || info.Kind != File || info.Size != 5 || info.ETag == "" {
		t.Errorf("stat %+v, %v", info, err)
	}
	info, err = f.Stat(dir+"/toB", false)
	if err != nil || info.Path != dir+"/toB" || info.Kind != Symlink || info.ETag != "" {
		t.Errorf("stat of the link %+v, %v", info, err)
	}
	if info, err = f.Stat("/", true); err != nil || info.Kind != Directory {
		t.Errorf("stat of the root %+v, %v", info, err)
	}
	if _, err = f.List("/"); err != nil {
		t.Errorf("the root cannot be listed: %v", err)
	}
	_, err = f.Read(dir + "/none")
	want(t, err, ErrNotFound)
	_, err = f.Read(dir)
	want(t, err, ErrInvalid)
	_, err = f.List(dir + "/b.txt")
	want(t, err, ErrInvalid)
	_, err = f.List(dir + "/b.txt/x")
	want(t, err, ErrInvalid)
	_, err = f.Read("b.txt")
	want(t, err, ErrInvalid)
	_, err = f.Read(dir + "/b.txt\x00")
	want(t, err, ErrInvalid)
	_, err = f.Read("/" + string(bytes.Repeat([]byte("x"), MaxPath)))
	want(t, err, ErrInvalid)
}

func TestHugeFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"big": ""})
	if err := os.Truncate(dir+"/big", MaxRead+1); err != nil {
		t.Fatal(err)
	}
	_, err := New().Read(dir + "/big")
	want(t, err, ErrTooLarge)
}

// A pipe would hold a reader for ever and /dev/zero never ends.
func TestPipesAndDevicesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := tree(t, nil)
	pipe := dir + "/pipe"
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	f := New()
	for _, path := range []string{pipe, "/dev/zero", "/dev/null"} {
		_, err := f.Read(path)
		want(t, err, ErrInvalid)
		want(t, f.Write(path, Write{Data: []byte("x")}), ErrInvalid)
		want(t, f.Copy(context.Background(), path, dir+"/copy", false), ErrInvalid)
	}
	if info, err := f.Stat(pipe, true); err != nil || info.Kind != Special {
		t.Errorf("stat %+v, %v", info, err)
	}
	want(t, f.Copy(context.Background(), dir, tree(t, nil)+"/all", false), ErrInvalid)
}

// The gateway's home has the tokens of all fronts, /proc the environment and
// memory of processes: no way leads there.
func TestFencesHold(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"home/token": "secret", "work/": "", "home2/x": "fine"})
	home := dir + "/home"
	f := New(home)
	if err := os.Symlink(home, dir+"/work/in"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home+"/token", dir+"/work/token"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home + "/token", dir + "/work/in/token", dir + "/work/token", dir + "/work/../home/token",
		"/proc/self/environ", "/proc/1/environ", "/sys/kernel/notes"} {
		_, err := f.Read(path)
		want(t, err, ErrDenied)
		_, err = f.Stat(path, true)
		want(t, err, ErrDenied)
		want(t, f.Copy(context.Background(), path, dir+"/work/copy", false), ErrDenied)
	}
	for _, path := range []string{home, dir + "/work/in", "/proc", "/proc/self/cwd/../proc"} {
		if _, err := f.List(path); !errors.Is(err, ErrDenied) && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s was listed: %v", path, err)
		}
	}
	want(t, f.Write(home+"/new", Write{}), ErrDenied)
	want(t, f.Write(dir+"/work/in/new", Write{}), ErrDenied)
	want(t, f.Mkdir(dir+"/work/in/new/dir"), ErrDenied)
	want(t, f.Delete(home, true), ErrDenied)
	want(t, f.Delete(dir, true), ErrDenied)
	want(t, f.Move(context.Background(), dir, dir+"-moved", false), ErrDenied)
	want(t, f.Move(context.Background(), dir+"/home2", home, false), ErrDenied)
	want(t, f.Copy(context.Background(), dir, tree(t, nil)+"/all", false), ErrDenied)
	want(t, f.Delete("/", true), ErrDenied)
	if b, err := f.Read(dir + "/home2/x"); err != nil || string(b) != "fine" {
		t.Errorf("what only begins like the fence: %q, %v", b, err)
	}
	// The link itself is not in the fence, and may go.
	if err := f.Delete(dir+"/work/in", true); err != nil {
		t.Error(err)
	}
	if content(t, home+"/token") != "secret" {
		t.Error("the token is not what it was")
	}
}

func TestWriteModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		w    Write
		want string
		err  error
	}{
		{"over", Write{Data: []byte("xy")}, "xy", nil},
		{"from a place on", Write{Data: []byte("xy"), Position: 3}, "012xy", nil},
		{"beyond", Write{Data: []byte("xy"), Position: 6}, "01234", ErrInvalid},
		{"negative", Write{Data: []byte("xy"), Position: -1}, "01234", ErrInvalid},
		{"append", Write{Data: []byte("xy"), Mode: Append}, "01234xy", nil},
		{"before the end", Write{Data: []byte("xy"), Mode: Append, Position: 2}, "012xy34", nil},
		{"before the beginning", Write{Data: []byte("xy"), Mode: Append, Position: 6}, "01234", ErrInvalid},
		{"insert", Write{Data: []byte("xy"), Mode: Insert}, "xy01234", nil},
		{"insert inside", Write{Data: []byte("xy"), Mode: Insert, Position: 1}, "0xy1234", nil},
		{"insert at the end", Write{Data: []byte("xy"), Mode: Insert, Position: 5}, "01234xy", nil},
		{"new", Write{Data: []byte("xy"), New: true}, "01234", ErrExists},
		{"stale", Write{Data: []byte("xy"), IfMatch: "other"}, "01234", ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := tree(t, map[string]string{"f": "01234"}) + "/f"
			err := New().Write(path, c.w)
			if !errors.Is(err, c.err) {
				t.Errorf("error %v", err)
			}
			if got := content(t, path); got != c.want {
				t.Errorf("wrote %q", got)
			}
		})
	}
}

func TestWriteMakesFilesButNotDirectories(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"real": "x"})
	f := New()
	if err := f.Write(dir+"/new", Write{Data: []byte("a"), New: true}); err != nil || content(t, dir+"/new") != "a" {
		t.Error(err)
	}
	want(t, f.Write(dir+"/none/new", Write{}), ErrNotFound)
	want(t, f.Write(dir+"/gone", Write{IfMatch: "x"}), ErrConflict)
	want(t, f.Write(dir+"/far", Write{Position: 1}), ErrInvalid)
	want(t, f.Write(dir, Write{}), ErrInvalid)
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(dir+"/link", Write{Data: []byte("through")}); err != nil || content(t, dir+"/real") != "through" {
		t.Error(err)
	}
	if err := os.Symlink("nothing", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	want(t, f.Write(dir+"/dangling", Write{}), ErrNotFound)
}

// Two clients that read one etag and both write: one of them is told.
func TestOneOfTwoWritersIsToldOfTheConflict(t *testing.T) {
	t.Parallel()
	path := tree(t, map[string]string{"f": "0"}) + "/f"
	f := New()
	info, err := f.Stat(path, true)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			errs[i] = f.Write(path, Write{Data: fmt.Appendf(nil, "writer %d", i), IfMatch: info.ETag})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			want(t, err, ErrConflict)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won", won)
	}
}

func TestAppendsDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	path := tree(t, map[string]string{"f": "."}) + "/f"
	f := New()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 10 {
				if err := f.Write(path, Write{Data: []byte("ab"), Mode: Append}); err != nil {
					t.Error(err)
				}
				if err := f.Write(path, Write{Data: []byte("ab"), Mode: Append, Position: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(content(t, path)); got != 1+400*2 {
		t.Errorf("%d bytes", got)
	}
}

func TestMkdirAndDelete(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"f": "x", "full/x": "y"})
	f := New()
	for range 2 {
		if err := f.Mkdir(dir + "/a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	want(t, f.Mkdir(dir+"/f"), ErrExists)
	want(t, f.Mkdir(dir+"/f/x"), ErrInvalid)
	want(t, f.Mkdir("x"), ErrInvalid)
	want(t, f.Delete(dir+"/full", false), ErrInvalid)
	want(t, f.Delete(dir+"/none", true), ErrNotFound)
	for _, c := range []struct {
		path string
		all  bool
	}{{"/f", false}, {"/full", true}, {"/a/b/c", false}} {
		if err := f.Delete(dir+c.path, c.all); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(dir + c.path); err == nil {
			t.Errorf("%s is there", c.path)
		}
	}
}

func TestMoveAndCopy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := tree(t, map[string]string{"f": "1", "g": "2", "d/x": "3", "d/e/y": "4", "old/z": "5"})
	if err := os.Symlink("x", dir+"/d/link"); err != nil {
		t.Fatal(err)
	}
	f := New()
	want(t, f.Move(ctx, dir+"/f", dir+"/g", true), ErrExists)
	want(t, f.Copy(ctx, dir+"/f", dir+"/g", true), ErrExists)
	want(t, f.Move(ctx, dir+"/none", dir+"/h", true), ErrNotFound)
	want(t, f.Move(ctx, dir+"/f", dir+"/none/h", true), ErrNotFound)
	want(t, f.Move(ctx, dir+"/d", dir+"/d/e/in", false), ErrInvalid)
	want(t, f.Copy(ctx, dir+"/d/x", dir+"/d", false), ErrInvalid)
	if err := f.Move(ctx, dir+"/f", dir+"/g", false); err != nil || content(t, dir+"/g") != "1" {
		t.Error(err)
	}
	if err := f.Copy(ctx, dir+"/d", dir+"/old", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/old/z"); err == nil {
		t.Error("the old directory was not replaced")
	}
	if content(t, dir+"/old/e/y") != "4" || content(t, dir+"/d/e/y") != "4" {
		t.Error("the copy is not whole")
	}
	if to, err := os.Readlink(dir + "/old/link"); err != nil || to != "x" {
		t.Errorf("the link became %q, %v", to, err)
	}
	if err := f.Move(ctx, dir+"/old", dir+"/new", true); err != nil || content(t, dir+"/new/x") != "3" {
		t.Error(err)
	}
	left, err := f.List(dir)
	if err != nil || fmt.Sprint(left) != "[{d true} {g false} {new true}]" {
		t.Errorf("left behind: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	want(t, f.Copy(ctx, dir+"/d", dir+"/given-up", false), context.Canceled)
	if left, _ = f.List(dir); len(left) != 3 {
		t.Errorf("a copy that was given up left %v", left)
	}
}

// What a write leaves is what the same splice of a string leaves.
func TestWritesAreSplices(t *testing.T) {
	t.Parallel()
	path := tree(t, nil) + "/f"
	f := New()
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringN(0, 40, 60).Draw(t, "before")
		if err := os.WriteFile(path, []byte(before), 0o666); err != nil {
			t.Fatal(err)
		}
		data := rapid.StringN(0, 10, 20).Draw(t, "data")
		mode := rapid.SampledFrom([]Mode{Truncate, Append, Insert}).Draw(t, "mode")
		at := rapid.IntRange(0, len(before)).Draw(t, "position")
		if err := f.Write(path, Write{Data: []byte(data), Mode: mode, Position: int64(at)}); err != nil {
			t.Fatal(err)
		}
		after := before[:at] + data + before[at:]
		switch mode {
		case Truncate:
			after = before[:at] + data
		case Append:
			at = len(before) - at
			after = before[:at] + data + before[at:]
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != after {
			t.Fatalf("%q, want %q, %v", b, after, err)
		}
	})
}

// FuzzPath reads whatever a path leads to: the token never comes out.
func FuzzPath(f *testing.F) {
	dir := tree(f, map[string]string{"home/token": "the secret", "work/x": "y"})
	if err := os.Symlink("../home", dir+"/work/up"); err != nil {
		f.Fatal(err)
	}
	files := New(dir + "/home")
	for _, s := range []string{"x", "../home/token", "up/token", "./up/./token", "//x", "x\x00", "up/../home/token", "...", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		b, err := files.Read(dir + "/work/" + path)
		if err == nil && bytes.Contains(b, []byte("secret")) {
			t.Errorf("%q leads to the token", path)
		}
		_, _ = files.List(dir + "/work/" + path)
		_, _ = files.Stat(dir+"/work/"+path, true)
	})
}
