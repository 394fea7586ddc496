package storetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

func recordsInOrder(t *testing.T, open Home) {
	s := opened(t, open)
	var want []store.Record
	var last store.Ticket
	for i := uint64(1); i <= 300; i++ {
		want = append(want, rec(i, i))
		last = s.Commit(store.Batch{Log: "a", Records: []store.Record{rec(i, i)}, Lazy: i%3 != 0})
	}
	wait(t, last) // covers all the earlier ones
	equal(t, read(t, s, "a", 0, 1<<20), want)
	if got := end(t, s, "a"); got != 300 {
		t.Errorf("the log ends at %d, want 300", got)
	}
}

func wholeBatch(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{
		Log: "a", Records: []store.Record{rec(1, 4), rec(5, 5)},
		Put:    []store.KV{{Key: "k1", Value: []byte("v1")}, {Key: "k2", Value: []byte("v2")}},
		Delete: []string{"nothing"},
	})
	equal(t, read(t, s, "a", 1, 1<<20), []store.Record{rec(1, 4), rec(5, 5)})
	if got := keys(scan(t, s, "", "", 10, false)); got != "k1 k2" {
		t.Errorf("keys %q", got)
	}
	// One bad part, and none of it is written.
	err := store.Wait(t.Context(), s.Commit(store.Batch{
		Log: "a", Records: []store.Record{rec(7, 7)},
		Put: []store.KV{{Key: "k3"}}, Delete: []string{"k1"},
	}))
	if !errors.Is(err, store.ErrGap) {
		t.Errorf("a batch with a gap: %v", err)
	}
	if got := keys(scan(t, s, "", "", 10, false)); got != "k1 k2" {
		t.Errorf("after a refused batch: keys %q", got)
	}
}

func removalsFirst(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 9)}, Put: []store.KV{{Key: "k", Value: []byte("old")}}})
	commit(t, s, store.Batch{
		DropLog: "a", Log: "a", Records: []store.Record{rec(1, 1)},
		Delete: []string{"k"}, Put: []store.KV{{Key: "k", Value: []byte("new")}},
	})
	equal(t, read(t, s, "a", 0, 1<<20), []store.Record{rec(1, 1)})
	if v, err := s.Get(t.Context(), "k"); err != nil || string(v) != "new" {
		t.Errorf("got %q, %v", v, err)
	}
}

func readFromTheMiddle(t *testing.T, open Home) {
	s := opened(t, open)
	all := []store.Record{rec(1, 1), rec(2, 10), rec(11, 300), rec(301, 301)}
	commit(t, s, store.Batch{Log: "b", Records: all})
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 5)}})
	commit(t, s, store.Batch{Log: "c", Records: []store.Record{rec(1, 5)}})
	for from, want := range map[uint64][]store.Record{
		0: all, 1: all, 2: all[1:], 6: all[1:], 10: all[1:], 11: all[2:], 256: all[2:], 300: all[2:], 301: all[3:], 302: nil, 1 << 63: nil,
	} {
		equal(t, read(t, s, "b", from, 1<<20), want)
	}
}

func pagesByBytes(t *testing.T, open Home) {
	s := opened(t, open)
	var all []store.Record
	for i := uint64(1); i <= 50; i++ {
		all = append(all, store.Record{First: i, Last: i, Data: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	commit(t, s, store.Batch{Log: "a", Records: all})
	equal(t, read(t, s, "a", 1, 0), all[:1])
	equal(t, read(t, s, "a", 5, 99), all[4:5])
	equal(t, read(t, s, "a", 5, 399), all[4:7])
	var got []store.Record
	for from, pages := uint64(1), 0; ; pages++ {
		page := read(t, s, "a", from, 1000)
		if len(page) == 0 {
			if pages != 5 {
				t.Errorf("%d pages, want 5", pages)
			}
			break
		}
		got = append(got, page...)
		from = page[len(page)-1].Last + 1
	}
	equal(t, got, all)
}

func dropLog(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 50)}})
	commit(t, s, store.Batch{Log: "ab", Records: []store.Record{rec(1, 7)}})
	commit(t, s, store.Batch{DropLog: "a", Put: []store.KV{{Key: "k", Value: []byte("v")}}})
	equal(t, read(t, s, "a", 0, 100), nil)
	if a, ab := end(t, s, "a"), end(t, s, "ab"); a != 0 || ab != 7 {
		t.Errorf("the dropped log ends at %d, its neighbour at %d", a, ab)
	}
	commit(t, s, store.Batch{DropLog: "never was"})
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 2)}})
	equal(t, read(t, s, "a", 0, 100), []store.Record{rec(1, 2)})
}

func badBatches(t *testing.T, open Home) {
	s := opened(t, open)
	long := strings.Repeat("x", store.MaxName+1)
	big := make([]byte, store.MaxValue+1)
	for name, b := range map[string]store.Batch{
		"no name":        {Records: []store.Record{rec(1, 1)}},
		"long name":      {Log: long, Records: []store.Record{rec(1, 1)}},
		"long drop":      {DropLog: long},
		"from zero":      {Log: "a", Records: []store.Record{rec(0, 1)}},
		"backwards":      {Log: "b", Records: []store.Record{{First: 1, Last: 0}}},
		"gap inside":     {Log: "c", Records: []store.Record{rec(1, 2), rec(4, 4)}},
		"overlap inside": {Log: "d", Records: []store.Record{rec(1, 2), rec(2, 3)}},
		"big record":     {Log: "e", Records: []store.Record{{First: 1, Last: 1, Data: big}}},
		"big value":      {Put: []store.KV{{Key: "k", Value: big}}},
		"empty key":      {Put: []store.KV{{Key: "ok"}, {Key: ""}}},
		"long key":       {Put: []store.KV{{Key: long}}},
	} {
		if err := store.Wait(t.Context(), s.Commit(b)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kvs := scan(t, s, "", "", 10, false); len(kvs) != 0 {
		t.Errorf("refused batches left %q", keys(kvs))
	}
	commit(t, s, store.Batch{Log: long[1:], Records: []store.Record{rec(1, 1)}, Put: []store.KV{{Key: long[1:], Value: big[1:]}}})
}

func noGap(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 3)}})
	refused := func(b store.Batch) {
		t.Helper()
		if err := store.Wait(t.Context(), s.Commit(b)); !errors.Is(err, store.ErrGap) {
			t.Errorf("batch %+v: %v", b, err)
		}
	}
	refused(store.Batch{Log: "a", Records: []store.Record{rec(5, 5)}})
	refused(store.Batch{Log: "a", Records: []store.Record{rec(6, 6)}})
	refused(store.Batch{Log: "a", Records: []store.Record{rec(3, 4)}})
	refused(store.Batch{Log: "a", Put: []store.KV{{Key: "about a", Value: []byte("v")}}})
	refused(store.Batch{Log: "new", Records: []store.Record{rec(2, 2)}})
	commit(t, s, store.Batch{Log: "b", Records: []store.Record{rec(1, 1)}}) // others go on
	commit(t, s, store.Batch{Put: []store.KV{{Key: "k", Value: []byte("v")}}})
	equal(t, read(t, s, "a", 0, 100), []store.Record{rec(1, 3)})

	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(4, 4)}}) // continued
	commit(t, s, store.Batch{Log: "a", Put: []store.KV{{Key: "about a", Value: []byte("v")}}})
	equal(t, read(t, s, "a", 0, 100), []store.Record{rec(1, 3), rec(4, 4)})

	refused(store.Batch{Log: "a", Records: []store.Record{rec(9, 9)}})
	commit(t, s, store.Batch{DropLog: "a"}) // dropped
	commit(t, s, store.Batch{Log: "a", Put: []store.KV{{Key: "about a", Value: []byte("w")}}})
	refused(store.Batch{Log: "a", Records: []store.Record{rec(10, 10)}})
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 1)}})
}
