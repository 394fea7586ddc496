package openset

import (
	"errors"
	"testing"
)

type conversation struct {
	set *Set[*conversation]
	err error
}

func (c *conversation) Close() error {
	c.set.Remove(c)
	return c.err
}

func TestCloseClosesAllThatIsOpen(t *testing.T) {
	t.Parallel()
	var s Set[*conversation]
	bad := errors.New("it does not end")
	a, b, gone := &conversation{set: &s}, &conversation{set: &s, err: bad}, &conversation{set: &s}
	for _, c := range []*conversation{a, b, gone} {
		if err := s.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	s.Remove(gone)
	s.Remove(gone)
	if err := s.Close(); !errors.Is(err, bad) {
		t.Errorf("close: %v", err)
	}
	if left := s.All(); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
	if err := s.Add(a); !errors.Is(err, ErrClosed) {
		t.Errorf("add: %v", err)
	}
}
