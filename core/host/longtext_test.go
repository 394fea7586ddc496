package host_test

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/store/boltstore"
)

func TestALongAnswerIsTheSameAfterARestartFromAnyNumber(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	f := &fixture{t: t, dir: t.TempDir()}
	start := func() *boltstore.Store {
		st, err := boltstore.Open(home)
		if err != nil {
			t.Fatal(err)
		}
		f.store = st
		f.open()
		return st
	}
	stop := func(st *boltstore.Store) {
		if err := f.host.Close(f.ctx()); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	st := start()
	s := f.session()
	said := f.turn(s, "stream 40 5000").Text()
	f.turn(s, "say after")
	if len(said) < 200_000 {
		t.Fatalf("the answer has %d bytes", len(said))
	}
	last := s.State().Seq
	stop(st)

	st = start()
	s, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	turns, err := s.Turns(f.ctx(), s.State().Default, -1, 10)
	if err != nil || len(turns) != 2 || turns[0].Text() != said {
		t.Fatalf("%d turns, %v", len(turns), err)
	}
	whole, err := s.Events(f.ctx(), 0, last, 1<<30)
	if err != nil || uint64(len(whole)) != last {
		t.Fatalf("%d of %d events, %v", len(whole), last, err)
	}
	var deltas, ended strings.Builder
	for _, e := range whole {
		switch b := e.Body.(type) {
		case *event.PartDelta:
			deltas.WriteString(b.Text)
		case *event.PartEnded:
			ended.WriteString(b.Text)
		}
	}
	if want := said + "after"; deltas.String() != want || ended.String() != want {
		t.Errorf("the deltas say %d bytes, the ends of the parts %d, want %d", deltas.Len(), ended.Len(), len(want))
	}
	for after := range last {
		got, err := s.Events(f.ctx(), after, after+1, 1<<30)
		if err != nil || len(got) != 1 || got[0].Seq != after+1 || got[0].Body.Kind() != whole[after].Body.Kind() {
			t.Fatalf("after %d: %d events, %v", after, len(got), err)
		}
	}
	if err := f.host.DeleteSession(f.ctx(), s.ID(), tester); err != nil {
		t.Fatal(err)
	}
	stop(st)
	st, err = boltstore.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	kvs, err := st.Scan(t.Context(), "", "", 100, false)
	for _, kv := range kvs {
		if strings.Contains(kv.Key, s.ID().String()) {
			t.Errorf("the deleted session left %s", kv.Key)
		}
	}
	if n, err2 := st.Last(t.Context(), "session/"+s.ID().String()); err != nil || err2 != nil || n != 0 {
		t.Errorf("the deleted session's log ends at %d, %v, %v", n, err, err2)
	}
}
