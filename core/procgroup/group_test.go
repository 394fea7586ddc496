package procgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// start runs a shell script and waits until it has made the file "ready".
func start(t *testing.T, script string) *Group {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = t.TempDir()
	g, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(0) })
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(cmd.Dir, "ready")); err == nil {
			return g
		}
		if time.Now().After(deadline) {
			t.Fatal("the script did not get ready")
		}
	}
}

func members(t *testing.T, g *Group) []int {
	t.Helper()
	pids, err := Marked(MarkVar, g.Mark())
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestStopEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a child":                    `sleep 60 & touch ready; wait`,
		"TERM is trapped":            `trap '' TERM; sleep 60 & touch ready; while :; do sleep 1; done`,
		"a child in its own session": `setsid sleep 60 & touch ready; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, script)
			begin := time.Now()
			if err := g.Stop(100 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
			if pids := members(t, g); len(pids) > 0 {
				t.Errorf("left: %v", pids)
			}
		})
	}
}

func TestTheGroupEndsWithItsLeader(t *testing.T) {
	t.Parallel()
	g := start(t, `sleep 60 & touch ready; exit 7`)
	<-g.Done()
	if code := g.cmd.ProcessState.ExitCode(); code != 7 || g.Err() == nil {
		t.Errorf("exit %d, %v", code, g.Err())
	}
	for deadline := time.Now().Add(30 * time.Second); len(members(t, g)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", members(t, g))
		}
	}
}

func TestAMarkIsMatchedWhole(t *testing.T) {
	t.Parallel()
	g := start(t, `touch ready; sleep 60`)
	for value, want := range map[string]bool{g.Mark(): true, g.Mark()[:15]: false, g.Mark() + "x": false} {
		pids, err := Marked(MarkVar, value)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(pids) > 0; got != want {
			t.Errorf("%s: found %v", value, pids)
		}
	}
}
