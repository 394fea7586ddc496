package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// told gathers what a watch tells, as "kind path" with the path below the root.
type told struct {
	root string
	news chan struct{}

	mu   sync.Mutex
	list []string
}

func (l *told) deliver(batch []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range batch {
		rel, _ := filepath.Rel(l.root, c.Path)
		l.list = append(l.list, string(c.Kind)+" "+rel)
	}
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// until waits for a change, and returns all that were told.
func (l *told) until(t testing.TB, want string) []string {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		list := append([]string(nil), l.list...)
		l.mu.Unlock()
		for _, s := range list {
			if s == want {
				return list
			}
		}
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("%q was not told, but %q", want, list)
		}
	}
}

// forget drops what was told so far.
func (l *told) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

func newWatcher(t testing.TB) *Watcher {
	t.Helper()
	w, err := New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func folder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *Watcher) follow(t testing.TB, o Options) (*Watch, *told) {
	t.Helper()
	l := &told{root: o.Root, news: make(chan struct{}, 1)}
	o.Deliver = l.deliver
	x, err := w.Watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return x, l
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreToldOnceEach(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	write(t, dir+"/old", "x")
	write(t, dir+"/sub/old", "x")
	w := newWatcher(t)
	_, l := w.follow(t, Options{Root: dir, Recursive: true})
	write(t, dir+"/old", "y")
	write(t, dir+"/new", "z")
	check(t, os.Remove(dir+"/sub/old"))
	write(t, dir+"/gone", "z")
	check(t, os.Remove(dir+"/gone"))
	write(t, dir+"/end", "")
	list := l.until(t, "added end")
	if got := strings.Join(list, ", "); strings.Count(got, "updated old") != 1 || strings.Count(got, "added new") != 1 ||
		strings.Count(got, "deleted sub/old") != 1 || strings.Contains(got, "added gone") && !strings.Contains(got, "deleted gone") {
		t.Errorf("told %s", got)
	}
}

func TestNewDirectoriesAreWatchedWithWhatIsInThem(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	_, l := w.follow(t, Options{Root: dir, Recursive: true})
	write(t, dir+"/a/b/c/first", "")
	l.until(t, "added a/b/c/first")
	write(t, dir+"/a/b/c/second", "")
	l.until(t, "added a/b/c/second")
	// One that is moved tells under its new name, and not under the old one.
	check(t, os.Rename(dir+"/a/b", dir+"/moved"))
	l.until(t, "deleted a/b")
	l.until(t, "added moved/c/first")
	write(t, dir+"/moved/c/third", "")
	if list := l.until(t, "added moved/c/third"); strings.Contains(strings.Join(list, ", "), "a/b/c/third") {
		t.Errorf("told %q", list)
	}
	check(t, os.RemoveAll(dir+"/moved"))
	l.until(t, "deleted moved")
	if s := w.Stats(); s.Dirs != 2 {
		t.Errorf("%d directories are watched", s.Dirs)
	}
}

func TestAWatchThatIsNotRecursiveTellsOfItsChildrenOnly(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	write(t, dir+"/sub/x", "")
	_, l := w.follow(t, Options{Root: dir})
	write(t, dir+"/sub/x", "changed")
	write(t, dir+"/sub2/y", "")
	write(t, dir+"/end", "")
	list := l.until(t, "added end")
	if got := strings.Join(list, ", "); strings.Contains(got, "/") || !strings.Contains(got, "added sub2") {
		t.Errorf("told %s", got)
	}
}

func TestOneFileIsWatchedThroughReplacement(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	write(t, dir+"/f", "")
	_, l := w.follow(t, Options{Root: dir + "/f"})
	write(t, dir+"/other", "")
	write(t, dir+"/next", "new")
	check(t, os.Rename(dir+"/next", dir+"/f"))
	l.until(t, "added .")
	check(t, os.Remove(dir+"/f"))
	if list := l.until(t, "deleted ."); strings.Contains(strings.Join(list, ", "), "other") {
		t.Errorf("told %q", list)
	}
}

func TestTheEndOfTheRootIsTold(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	write(t, dir+"/root/x", "")
	_, l := w.follow(t, Options{Root: dir + "/root", Recursive: true})
	check(t, os.Rename(dir+"/root", dir+"/elsewhere"))
	l.until(t, "deleted .")
}

func TestPatternsChoose(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	write(t, dir+"/node_modules/a/x.go", "")
	write(t, dir+"/pkg/build/x.go", "")
	_, l := w.follow(t, Options{Root: dir, Recursive: true, Includes: []string{"**/*.go", "docs"}, Excludes: []string{"**/node_modules/**", "pkg/build", "**/{gen,tmp}*.go"}})
	_, hidden := w.follow(t, Options{Root: dir, Recursive: true, Hidden: func(p string) bool { return strings.Contains(p, "/pkg") }})
	for _, name := range []string{"node_modules/a/x.go", "node_modules/b/y.go", "pkg/build/x.go", "pkg/build/deep/x.go", "x.txt", "pkg/gen1.go", "docs/deep/x.txt", "pkg/in.go", "end.go"} {
		write(t, filepath.Join(dir, name), "1")
	}
	l.until(t, "added docs/deep/x.txt")
	l.until(t, "added pkg/in.go")
	for _, s := range l.until(t, "added end.go") {
		switch s {
		case "added docs", "added docs/deep", "added docs/deep/x.txt", "added pkg/in.go", "added end.go":
		default:
			t.Errorf("told %q", s)
		}
	}
	if list := hidden.until(t, "added end.go"); strings.Contains(strings.Join(list, ", "), "pkg") {
		t.Errorf("told what is hidden: %q", list)
	}
}

func TestBadWatchesAreRefused(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	for _, list := range [][]string{{""}, {"["}, {strings.Repeat("x", MaxPattern+1)}, {strings.Repeat("{a,b}", maxBraces+1)}, make([]string, MaxPatterns+1)} {
		if _, err := w.Watch(t.Context(), Options{Root: dir, Excludes: list}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", list, err)
		}
	}
	if _, err := w.Watch(t.Context(), Options{Root: dir + "/none"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, sub := range []string{"one", "two"} {
		check(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	if _, err := w.Watch(t.Context(), Options{Root: dir, Recursive: true, Most: 2}); !errors.Is(err, ErrTooMany) {
		t.Errorf("more directories than it may have: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Watch(ctx, Options{Root: dir, Recursive: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
	if s := w.Stats(); s.Watches != 0 || s.Dirs != 0 {
		t.Errorf("left behind: %+v", s)
	}
	check(t, w.Close())
	if _, err := w.Watch(t.Context(), Options{Root: dir}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Whoever has used up a share leaves what others may have, and gets back what goes.
func TestWatchesOfOneHaveAShare(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	for _, sub := range []string{"one", "two"} {
		check(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	mine := Options{Root: dir, Recursive: true, For: "me", Share: 4, Deliver: func([]Change) {}}
	first, err := w.Watch(t.Context(), mine)
	check(t, err)
	if _, err := w.Watch(t.Context(), mine); !errors.Is(err, ErrTooMany) {
		t.Errorf("beyond the share: %v", err)
	}
	other := mine
	other.For = "you"
	second, err := w.Watch(t.Context(), other)
	check(t, err)
	check(t, os.Remove(filepath.Join(dir, "two")))
	for s := w.Stats(); s.Dirs != 2; s = w.Stats() {
		runtime.Gosched()
	}
	small := mine
	small.Root, small.Recursive = filepath.Join(dir, "one"), false
	third, err := w.Watch(t.Context(), small) // in the place of what was removed
	check(t, err)
	for _, t := range []*Watch{first, second, third} {
		t.Close()
	}
	if len(w.shares) != 0 {
		t.Errorf("still counted: %v", w.shares)
	}
}

// Directories that two watches share stay for the other when one ends.
func TestWatchesShareDirectories(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	write(t, dir+"/sub/x", "")
	one, _ := w.follow(t, Options{Root: dir, Recursive: true})
	two, l := w.follow(t, Options{Root: dir + "/sub"})
	if s := w.Stats(); s.Watches != 2 || s.Dirs != 2 {
		t.Errorf("%+v", s)
	}
	one.Close()
	one.Close()
	write(t, dir+"/sub/y", "")
	l.until(t, "added y")
	two.Close()
	if s := w.Stats(); s.Watches != 0 || s.Dirs != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// More changes at once than a batch holds, or the kernel keeps, are one change
// of the root, and the watch goes on.
func TestLostChangesAreOneChangeOfTheRoot(t *testing.T) {
	t.Parallel()
	dir, w := folder(t), newWatcher(t)
	x, l := w.follow(t, Options{Root: dir, Recursive: true})
	w.mu.Lock() // so that they are one batch
	for i := range MaxBatch + 2 {
		x.noteLocked(fmt.Sprintf("%s/%d", dir, i), Added)
	}
	w.mu.Unlock()
	if list := l.until(t, "updated ."); len(list) != 1 {
		t.Errorf("told %d changes", len(list))
	}
	write(t, dir+"/unseen/x", "")
	w.failed(fsnotify.ErrEventOverflow)
	l.forget()
	l.until(t, "updated .")
	write(t, dir+"/unseen/y", "")
	l.until(t, "added unseen/y")
	if s := w.Stats(); s.Rescans < 2 {
		t.Errorf("%+v", s)
	}
}

// Ten thousand watched files that rest wake nobody, and need a kernel watch
// for each directory, not for each file.
func TestRestingFilesCostNothing(t *testing.T) {
	t.Parallel()
	dir, dirs := tenThousand(t)
	w := newWatcher(t)
	_, l := w.follow(t, Options{Root: dir, Recursive: true})
	before := w.Stats()
	if before.Dirs != dirs+1 {
		t.Errorf("%d kernel watches", before.Dirs)
	}
	time.Sleep(10 * settle) // nothing happens, which is what is looked at
	if s := w.Stats(); s.Wakes != before.Wakes {
		t.Errorf("woke up %d times for nothing", s.Wakes-before.Wakes)
	}
	write(t, dir+"/d7/f7", "x")
	if list := l.until(t, "updated d7/f7"); len(list) != 1 {
		t.Errorf("told %q", list)
	}
}

// FuzzPatterns matches anything against a hostile list in bounded time.
func FuzzPatterns(f *testing.F) {
	for _, s := range []string{"**/*.go", "src", "./x", "{a,b}/**", "[a-", "**/**/**/x", "\\", "*{a,{b,c}}*", "/abs"} {
		f.Add(s, "src/a/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if checkPatterns([]string{pattern}) != nil || len(path) > 500 || strings.ContainsRune(path, 0) {
			return
		}
		w := &Watch{o: Options{Root: "/root", Includes: []string{pattern}}}
		one := w.tells(filepath.Join("/root", path))
		w.o = Options{Root: "/root", Excludes: []string{pattern}}
		if rel := w.relative(filepath.Join("/root", path)); rel != "." && !strings.HasPrefix(rel, "..") && one == w.tells(filepath.Join("/root", path)) {
			t.Errorf("%q both includes and excludes %q, or neither", pattern, path)
		}
	})
}
