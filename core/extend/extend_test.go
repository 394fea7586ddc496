package extend

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/id"
)

func registry(t *testing.T, stored []byte) (*Registry, *[]byte) {
	t.Helper()
	kept := &stored
	r, err := New(stored, func(b []byte) error { *kept = b; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r, kept
}

func TestWhatASessionHasIsWhatItsAgentSaidLast(t *testing.T) {
	t.Parallel()
	r, _ := registry(t, nil)
	s := id.New()
	var told []id.ID
	r.Watch(func(x id.ID) { told = append(told, x) })
	for range 2 { // saying it again is no change
		r.Offered(s, &agent.Offer{Commands: []agent.Command{{Name: "a", Description: strings.Repeat("x", MaxText+1)}, {Name: "a"}, {Name: ""}}})
		r.Reported(s, []agent.ServerStatus{{Name: "docs", State: agent.ServerReady}, {Name: "docs", State: agent.ServerOff}})
	}
	if len(told) != 2 || told[0] != s {
		t.Errorf("the watcher heard %v", told)
	}
	v := r.Of(s)
	if len(v.Offer.Commands) != 1 || len(v.Offer.Commands[0].Description) != MaxText || len(v.Servers) != 1 || v.Server("docs").State != agent.ServerReady {
		t.Errorf("the view is %+v", v)
	}
	if err := r.Forget(s); err != nil || r.Of(s).Offer != nil {
		t.Errorf("a session that is gone has %+v, %v", r.Of(s), err)
	}
}

func TestTheNearestDecisionCounts(t *testing.T) {
	t.Parallel()
	r, kept := registry(t, nil)
	a, b, c := id.New(), id.New(), id.New()
	decide := func(s id.ID, dir string, ds ...Decision) {
		t.Helper()
		if changed, err := r.Decide(s, dir, "x", ds); err != nil || !changed {
			t.Fatalf("%v, %v", changed, err)
		}
	}
	decide(a, "/w", Decision{Scope: ForSession, On: true}, Decision{Scope: ForFolder, Dir: "/w"}, Decision{Scope: ForAll, On: true})
	if changed, err := r.Decide(a, "/w", "x", r.Decisions(a, "/w", "x")); changed || err != nil {
		t.Errorf("the same again: %v, %v", changed, err)
	}
	for range 2 { // and once more from what was stored
		if ds := r.Decisions(a, "/w", "x"); !On(ds) || len(ds) != 3 {
			t.Errorf("the session that decided: %+v", ds)
		}
		if ds := r.Decisions(b, "/w", "x"); On(ds) || len(ds) != 2 {
			t.Errorf("another in its folder: %+v", ds)
		}
		if ds := r.Decisions(c, "/v", "x"); !On(ds) || len(ds) != 1 {
			t.Errorf("one elsewhere: %+v", ds)
		}
		r, kept = registry(t, *kept)
	}
	if err := r.Forget(a); err != nil || len(r.Decisions(a, "/w", "x")) != 2 {
		t.Errorf("of a session that is gone: %+v, %v", r.Decisions(a, "/w", "x"), err)
	}
	decide(b, "/w")
	if ds := r.Decisions(c, "/v", "x"); len(ds) != 0 || !On(ds) {
		t.Errorf("what was taken back: %+v", ds)
	}
}

func TestADecisionThatIsNotStoredDoesNotCount(t *testing.T) {
	t.Parallel()
	broken := errors.New("no disk")
	r, err := New(nil, func([]byte) error { return broken })
	if err != nil {
		t.Fatal(err)
	}
	s := id.New()
	if _, err := r.Decide(s, "/w", "x", []Decision{{Scope: ForAll}}); !errors.Is(err, broken) || len(r.Decisions(s, "/w", "x")) != 0 {
		t.Errorf("%v, %+v", err, r.Decisions(s, "/w", "x"))
	}
	if _, err := New([]byte("{"), nil); err == nil {
		t.Error("a broken store was read")
	}
}

func TestOffersThatAreTheSameAreKeptOnce(t *testing.T) {
	t.Parallel()
	r, _ := registry(t, nil)
	a, b := id.New(), id.New()
	for _, s := range []id.ID{a, b} {
		r.Offered(s, &agent.Offer{Subagents: []agent.Persona{{Name: "x"}}})
	}
	if r.Of(a).Offer != r.Of(b).Offer || !reflect.DeepEqual(r.Of(a).Offer.Subagents, []agent.Persona{{Name: "x"}}) {
		t.Errorf("%+v and %+v", r.Of(a).Offer, r.Of(b).Offer)
	}
}

func TestPluginsAreThoseThatWereBroughtAndAreOn(t *testing.T) {
	t.Parallel()
	r, _ := registry(t, nil)
	s := id.New()
	told := 0
	r.Watch(func(id.ID) { told++ })
	r.Bring(s, "x", nil) // nothing before, nothing now
	r.Bring(s, "x", []Plugin{{Thing: "a", Copy: "1"}, {Thing: "b", Loading: true}, {Thing: "c", Copy: "3", Off: true}})
	r.Bring(s, "y", []Plugin{{Thing: "a", Copy: "1"}, {Thing: "d", Copy: "4"}})
	if got := r.Copies(s, "/w"); told != 2 || !reflect.DeepEqual(got, []string{"1", "4"}) {
		t.Errorf("%v, told %d times", got, told)
	}
	waits, stop := context.WithCancel(t.Context())
	stop()
	r.PluginsSettled(waits, s)
	done := make(chan struct{})
	go func() { defer close(done); r.PluginsSettled(t.Context(), s) }()
	r.Bring(s, "x", []Plugin{{Thing: "b", Copy: "2"}, {Thing: "c", Copy: "3", Off: true}})
	<-done
	for thing, on := range map[string]bool{"c": true, "d": false} {
		if _, err := r.Decide(s, "/w", thing, []Decision{{Scope: ForAll, On: on}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Copies(s, "/w"); !reflect.DeepEqual(got, []string{"2", "3", "1"}) {
		t.Errorf("%v", got)
	}
	if err := r.Forget(s); err != nil || r.Copies(s, "/w") != nil {
		t.Errorf("of a session that is gone: %v, %v", r.Copies(s, "/w"), err)
	}
}
