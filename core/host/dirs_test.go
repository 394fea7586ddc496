package host

import (
	"errors"
	"slices"
	"testing"
)

func TestADirectoryIsAddedRemovedAndReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		remove, add string
		want        []string
	}{
		{"", "/d", []string{"/a", "/b", "/c", "/d"}},
		{"", "/b", []string{"/a", "/b", "/c"}},
		{"/b", "", []string{"/a", "/c"}},
		{"/x", "", []string{"/a", "/b", "/c"}},
		{"/x", "/d", []string{"/a", "/b", "/c"}},
		{"/a", "/d", []string{"/d", "/b", "/c"}},
		{"/a", "/c", []string{"/c", "/b"}},
		{"/c", "/a", []string{"/a", "/b"}},
		{"/b", "/b", []string{"/a", "/b", "/c"}},
	} {
		got, err := (&ChangeDir{Remove: c.remove, Add: c.add}).apply([]string{"/a", "/b", "/c"})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("without %q, with %q: %v, %v, want %v", c.remove, c.add, got, err, c.want)
		}
	}
	if _, err := (&ChangeDir{Remove: "/a"}).apply([]string{"/a", "/b"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("taking the first one out: %v", err)
	}
}
