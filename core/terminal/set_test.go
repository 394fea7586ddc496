package terminal

import "testing"

// A terminal that goes before it was told of does not stay with those who
// watch, and who begins to watch hears of each terminal once.
func TestWatchersHearOfATerminalOnce(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	here := map[*Terminal]int{}
	heard := func(x *Terminal, open bool) {
		if open {
			here[x]++
		} else {
			here[x]--
		}
	}
	x := open(t, s, Open{Shell: "/bin/sh"})
	s.Watch(heard)
	s.tell(x.Terminal)
	if here[x.Terminal] != 1 {
		t.Errorf("an open terminal was told %d times", here[x.Terminal])
	}
	s.Remove(x.Terminal)
	s.tell(x.Terminal) // the opener comes last
	if here[x.Terminal] != 0 {
		t.Error("a terminal that is gone is still there for its watchers")
	}
}
