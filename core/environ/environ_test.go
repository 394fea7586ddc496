package environ

import (
	"slices"
	"strings"
	"testing"
)

func TestEnvironmentIsAllowListed(t *testing.T) {
	t.Setenv("AGENT_KEY", "a")
	t.Setenv("OTHER_KEY", "b")
	t.Setenv("NAMED", "c")
	t.Setenv("LC_X", "d")
	t.Setenv("SHARED", "old")
	t.Setenv(PassVar, "NAMED,SHARED")
	env := For([]string{"AGENT_*"}, []string{"SHARED=new"})
	for v, want := range map[string]bool{"AGENT_KEY=a": true, "OTHER_KEY=b": false, "NAMED=c": true, "LC_X=d": true, "SHARED=new": true, "SHARED=old": false} {
		if slices.Contains(env, v) != want {
			t.Errorf("%s: %v, want %v", v, !want, want)
		}
	}
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, PassVar) }) {
		t.Error("the list itself is passed on")
	}
}
