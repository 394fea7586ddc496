package id

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestATwinIsAnotherIDOfTheSameMoment(t *testing.T) {
	t.Parallel()
	a, b := New(), New()
	twin := a.Twin()
	if back, err := Parse(twin.String()); err != nil || back != twin {
		t.Errorf("%s is read as %s, %v", twin, back, err)
	}
	if twin == a || !twin.Time().Equal(a.Time()) || twin.Compare(b) >= 0 {
		t.Errorf("the twin of %s, before %s, is %s", a, b, twin)
	}
}

func TestNewSortsInTheOrderOfMaking(t *testing.T) {
	var made []ID
	for range 20_000 {
		made = append(made, New())
	}
	if !slices.IsSortedFunc(made, ID.Compare) {
		t.Fatal("ids are not in the order they were made")
	}
	slices.Sort(func() (s []string) {
		for _, u := range made {
			s = append(s, u.String())
		}
		return
	}())
	for i := 1; i < len(made); i++ {
		if made[i] == made[i-1] {
			t.Fatalf("%v was made twice", made[i])
		}
	}
}

func TestClockThatStepsBackKeepsTheOrder(t *testing.T) {
	a := at(time.Now().UnixMilli() + 50)
	if b := New(); b.Compare(a) <= 0 {
		t.Fatalf("%v does not come after %v", b, a)
	}
}

func TestDerivedIsTheSameForTheSameName(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	a := Derived(noon, "a")
	if a != Derived(noon, "a") || a == Derived(noon, "b") || !a.Time().Equal(noon) {
		t.Errorf("%v of %v", a, a.Time())
	}
	if later := Derived(noon.Add(time.Millisecond), "a"); later.Compare(a) <= 0 {
		t.Errorf("%v does not come after %v", later, a)
	}
	for _, at := range []time.Time{{}, noon} {
		u := Derived(at, "x")
		if back, err := Parse(u.String()); err != nil || back != u {
			t.Errorf("%v: %v", u, err)
		}
	}
}

func TestSpellingsAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := at(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
		back := func(name string, got ID, err error) {
			if err != nil || got != u {
				t.Fatalf("%s: %v comes back as %v, %v", name, u, got, err)
			}
		}
		got, err := Parse(u.String())
		back("bare", got, err)
		scheme, got, err := ParseAHP(u.AHP("claude"))
		back("ahp "+scheme, got, err)
		got, err = ParseBAE("ses", u.BAE("ses"))
		back("bae", got, err)
		got, err = ParseCognitio("msg", u.Cognitio("msg"))
		back("cognitio", got, err)
		got, err = ParseCognitioDescending("ses", u.CognitioDescending("ses"))
		back("cognitio session", got, err)
	})
}

func TestCognitioSpelling(t *testing.T) {
	a, b := New(), New()
	s := a.Cognitio("msg")
	if len(s) != 30 || !strings.HasPrefix(s, "msg_") {
		t.Fatalf("%q has not the form of a cognitio id", s)
	}
	if a.Cognitio("msg") >= b.Cognitio("msg") {
		t.Error("message ids do not sort ascending")
	}
	if a.CognitioDescending("ses") <= b.CognitioDescending("ses") {
		t.Error("session ids do not sort newest first")
	}
}

func TestMalformedIdsAreRefused(t *testing.T) {
	u := New()
	for _, s := range []string{"", "x", u.String() + "0", strings.ToUpper(u.String()), strings.Replace(u.String(), "-7", "-4", 1), "00000000-0000-0000-0000-000000000000"} {
		if s == u.String() {
			continue
		}
		if _, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) was taken", s)
		}
	}
	for _, s := range []string{"", "ses_", "msg_" + strings.Repeat("z", 26), "msg_000000000000" + strings.Repeat("z", 14), "msg_00000000000g" + strings.Repeat("0", 14)} {
		if _, err := ParseCognitio("msg", s); err == nil {
			t.Errorf("ParseCognitio(%q) was taken", s)
		}
	}
	if _, err := ParseBAE("ses", "key_"+strings.Repeat("0", 32)); err == nil {
		t.Error("a key was taken for a session")
	}
}
