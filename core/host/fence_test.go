package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// No session works in what is fenced off, by whatever path.
func TestASessionWorksOutsideTheFence(t *testing.T) {
	t.Parallel()
	private := t.TempDir()
	f := newFixture(t, func(o *host.Options) {
		o.Fenced = func(real string) bool { return real == private || strings.HasPrefix(real, private+"/") }
	})
	link := filepath.Join(f.dir, "link")
	if err := errors.Join(os.Symlink(private, link), os.Mkdir(private+"/in", 0o755)); err != nil {
		t.Fatal(err)
	}
	s := f.session()
	for _, dir := range []string{private, private + "/in", link, link + "/in", f.dir + "/../" + filepath.Base(f.dir) + "/link"} {
		if _, err := f.host.CreateSession(f.ctx(), host.CreateSession{By: tester, Dirs: []string{f.dir, dir}}); !errors.Is(err, host.ErrBadDir) {
			t.Errorf("%s: %v", dir, err)
		}
		if _, err := s.ChangeDir(f.ctx(), host.ChangeDir{Add: dir, By: tester}); !errors.Is(err, host.ErrBadDir) {
			t.Errorf("%s was added: %v", dir, err)
		}
	}
	if _, err := f.host.CreateSession(f.ctx(), host.CreateSession{By: tester, Dirs: []string{filepath.Dir(private)}}); err != nil {
		t.Errorf("the directory around it is closed, too: %v", err)
	}
	// A directory that leads there later is no way in either.
	if err := errors.Join(os.RemoveAll(f.dir), os.Symlink(private, f.dir)); err != nil {
		t.Fatal(err)
	}
	if turn := f.turn(s, "say hello"); turn.Status != event.TurnFailed || !strings.Contains(turn.Error.Message, "closed to sessions") {
		t.Errorf("a turn ran there: %+v", turn)
	}
}
