package supervisor

import (
	"slices"
	"testing"
)

func TestAPluginGetsTheUsualVariablesAndThoseOfItsName(t *testing.T) {
	t.Parallel()
	all := []string{"PATH=/bin", "LC_ALL=C", "SECRET=1", "CODEX_HOME=/c", "CODEX=2", "TOKEN=3", "STAR=4"}
	for _, c := range []struct{ named, want []string }{
		{nil, []string{"PATH=/bin", "LC_ALL=C"}},
		{[]string{"CODEX_*", "TOKEN"}, []string{"PATH=/bin", "LC_ALL=C", "CODEX_HOME=/c", "TOKEN=3"}},
		{[]string{"*"}, []string{"PATH=/bin", "LC_ALL=C"}},
	} {
		if got := environment(all, c.named); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.named, got, c.want)
		}
	}
}
