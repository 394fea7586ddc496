package main

import (
	"strings"
	"testing"
)

func TestUsersAreAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if out := h.ok("users"); out != "" {
		t.Errorf("a new home has users: %q", out)
	}
	token := strings.TrimSpace(h.ok("users", "add", "ann"))
	if len(token) < 40 || strings.ContainsAny(token, " \n") {
		t.Errorf("the token is %q", token)
	}
	h.ok("users", "add", "bob")
	if out := h.ok("users"); out != "ann\nbob\n" {
		t.Errorf("the users are %q", out)
	}
	for _, bad := range [][]string{{"users", "add", "ann"}, {"users", "add", "Not a name"}, {"users", "remove", "zoe"}} {
		if o := h.run(bad...); o.code != exitError || o.stdout != "" {
			t.Errorf("%v: %+v", bad, o)
		}
	}
	h.ok("users", "grant", "ann", "trust:push", "config:write")
	h.ok("users", "add", "--grant", "trust:push", "carl")
	if out := h.ok("users"); out != "ann config:write trust:push\nbob\ncarl trust:push\n" {
		t.Errorf("the users are %q", out)
	}
	for _, bad := range [][]string{{"users", "add", "dan", "--grant", "all"}, {"users", "grant", "ann", "all"}, {"users", "grant", "zoe"}} {
		if o := h.run(bad...); o.code != exitError || o.stdout != "" {
			t.Errorf("%v: %+v", bad, o)
		}
	}
	h.ok("users", "grant", "carl")
	h.ok("users", "remove", "carl")
	h.ok("users", "remove", "ann")
	if out := h.ok("users"); out != "bob\n" {
		t.Errorf("the users are %q", out)
	}
}
