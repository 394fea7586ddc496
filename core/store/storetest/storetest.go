// Package storetest is the contract that every home of data keeps, as a suite.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/store"
)

// Home opens one home of data: the same data each time, after the store it
// returned before was closed.
type Home func() store.Store

// patience bounds every wait of the suite; a sync takes milliseconds.
const patience = 20 * time.Second

// Run runs the contract; newHome makes an empty home.
func Run(t *testing.T, newHome func(t *testing.T) Home) {
	tests := []struct {
		name string
		test func(t *testing.T, open Home)
	}{
		{"records come back in order", recordsInOrder},
		{"a batch is whole", wholeBatch},
		{"removals come before what is written", removalsFirst},
		{"reading starts at the record that holds the number", readFromTheMiddle},
		{"pages are bounded in bytes", pagesByBytes},
		{"reads are copies", readsAreCopies},
		{"keys are scanned both ways", scanBothWays},
		{"a dropped log is gone and can begin again", dropLog},
		{"what is not there is not found", notFound},
		{"an empty value is a value", emptyValue},
		{"bad batches are refused", badBatches},
		{"a log takes nothing after a gap until it is continued", noGap},
		{"blobs are named by their hash", blobs},
		{"close writes what is queued", closeFlushes},
		{"a closed store says so", closedStore},
		{"a cancelled read says so", cancelledRead},
		{"a home opened again has all of it", reopen},
		{"many write at once", manyWriters},
		{"readers see whole batches while others write", readWhileWriting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, newHome(t))
		})
	}
}

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

func readsAreCopies(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{Log: "a", Records: []store.Record{rec(1, 1)}, Put: []store.KV{{Key: "k", Value: []byte("value")}}})
	blob, err := s.PutBlob(t.Context(), []byte("blob"))
	must(t, err)
	for range 2 {
		rs := read(t, s, "a", 1, 10)
		equal(t, rs, []store.Record{rec(1, 1)})
		v, err := s.Get(t.Context(), "k")
		must(t, err)
		kvs := scan(t, s, "k", "", 1, false)
		b, err := s.Blob(t.Context(), blob)
		must(t, err)
		if string(v) != "value" || string(kvs[0].Value) != "value" || string(b) != "blob" {
			t.Fatalf("got %q, %q, %q", v, kvs[0].Value, b)
		}
		rs[0].Data[0], v[0], kvs[0].Value[1], b[0] = '!', '!', '!', '!'
	}
}

func scanBothWays(t *testing.T, open Home) {
	s := opened(t, open)
	var put []store.KV
	for _, k := range []string{"s/b", "s/a", "s/c", "s", "r", "t", "s/", "s0", "\xff", "\xff\xff", "\xff\xffa"} {
		put = append(put, store.KV{Key: k, Value: []byte("value of " + k)})
	}
	commit(t, s, store.Batch{Put: put})
	for _, tt := range []struct {
		prefix, after string
		limit         int
		up, down      string
	}{
		{"s/", "", 10, "s/ s/a s/b s/c", "s/c s/b s/a s/"},
		{"s/", "", 2, "s/ s/a", "s/c s/b"},
		{"s/", "s/a", 10, "s/b s/c", "s/"},
		{"s/", "s/aa", 10, "s/b s/c", "s/a s/"},
		{"s/", "s/", 1, "s/a", ""},
		{"s/", "s/c", 10, "", "s/b s/a s/"},
		{"s/", "a", 10, "s/ s/a s/b s/c", ""},
		{"s/", "z", 10, "", "s/c s/b s/a s/"},
		{"s/", "", 0, "", ""},
		{"s/", "", -1, "", ""},
		{"nothing", "", 10, "", ""},
		{"", "", 3, "r s s/", "\xff\xffa \xff\xff \xff"},
		{"", "t", 2, "\xff \xff\xff", "s0 s/c"},
		{"\xff\xff", "", 5, "\xff\xff \xff\xffa", "\xff\xffa \xff\xff"},
		{"\xff\xff", "\xff\xffa", 5, "", "\xff\xff"},
	} {
		for _, reverse := range []bool{false, true} {
			want := tt.up
			if reverse {
				want = tt.down
			}
			got := scan(t, s, tt.prefix, tt.after, tt.limit, reverse)
			if keys(got) != want {
				t.Errorf("prefix %q after %q limit %d reverse %t: %q, want %q", tt.prefix, tt.after, tt.limit, reverse, keys(got), want)
			}
			for _, kv := range got {
				if string(kv.Value) != "value of "+kv.Key {
					t.Errorf("key %q has %q", kv.Key, kv.Value)
				}
			}
		}
	}
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

func notFound(t *testing.T, open Home) {
	s := opened(t, open)
	for _, key := range []string{"", "k", strings.Repeat("k", store.MaxName+1)} {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(%.10q): %v", key, err)
		}
	}
	for _, log := range []string{"", "a"} {
		equal(t, read(t, s, log, 0, 100), nil)
		if got := end(t, s, log); got != 0 {
			t.Errorf("no log %q, but it ends at %d", log, got)
		}
	}
	commit(t, s, store.Batch{Put: []store.KV{{Key: "k"}}})
	commit(t, s, store.Batch{Delete: []string{"k", ""}})
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a deleted key: %v", err)
	}
}

func emptyValue(t *testing.T, open Home) {
	s := opened(t, open)
	commit(t, s, store.Batch{
		Log: "a", Records: []store.Record{{First: 1, Last: 2}, {First: 3, Last: 3, Data: []byte{}}},
		Put: []store.KV{{Key: "nil"}, {Key: "none", Value: []byte{}}},
	})
	for _, k := range []string{"nil", "none"} {
		if v, err := s.Get(t.Context(), k); err != nil || len(v) != 0 {
			t.Errorf("key %q: %q, %v", k, v, err)
		}
	}
	equal(t, read(t, s, "a", 0, 100), []store.Record{{First: 1, Last: 2}, {First: 3, Last: 3}})
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

func blobs(t *testing.T, open Home) {
	s := opened(t, open)
	data := bytes.Repeat([]byte("blob "), 100_000)
	name, err := s.PutBlob(t.Context(), data)
	must(t, err)
	again, err := s.PutBlob(t.Context(), bytes.Clone(data))
	must(t, err)
	if again != name {
		t.Errorf("the same bytes are %q and %q", name, again)
	}
	// sha256 of nothing, a published constant.
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if name, err := s.PutBlob(t.Context(), nil); err != nil || name != nothing {
		t.Errorf("no bytes are %q, %v", name, err)
	}
	must(t, s.Close())
	s = opened(t, open)
	if got, err := s.Blob(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	unknown := strings.Repeat("0", len(nothing))
	for _, name := range []string{"", ".", "..", unknown, unknown[1:], "../" + unknown[3:], "../polyhost.db", "/etc/passwd", nothing + "\x00"} {
		if _, err := s.Blob(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Blob(%q): %v", name, err)
		}
	}
}

func closeFlushes(t *testing.T, open Home) {
	s := opened(t, open)
	var tickets []store.Ticket
	for i := uint64(1); i <= 20; i++ {
		tickets = append(tickets, s.Commit(store.Batch{Log: "a", Records: []store.Record{rec(i, i)}, Lazy: true}))
	}
	must(t, s.Close())
	for _, ticket := range tickets {
		select {
		case <-ticket.Done():
			must(t, ticket.Err())
		default:
			t.Fatal("a ticket is open after Close")
		}
	}
	s = opened(t, open)
	if got := end(t, s, "a"); got != 20 {
		t.Errorf("the log ends at %d, want 20", got)
	}
}

func closedStore(t *testing.T, open Home) {
	s := opened(t, open)
	must(t, s.Close())
	must(t, s.Close())
	ctx := t.Context()
	_, read := s.Read(ctx, "a", 0, 1)
	_, last := s.Last(ctx, "a")
	_, get := s.Get(ctx, "k")
	_, scan := s.Scan(ctx, "", "", 1, false)
	_, put := s.PutBlob(ctx, nil)
	_, blob := s.Blob(ctx, "")
	commit := store.Wait(ctx, s.Commit(store.Batch{Log: "a", Records: []store.Record{rec(1, 1)}}))
	for i, err := range []error{read, last, get, scan, put, blob, commit} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func cancelledRead(t *testing.T, open Home) {
	s := opened(t, open)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the reader left")
	cancel(cause)
	_, read := s.Read(ctx, "a", 0, 1)
	_, last := s.Last(ctx, "a")
	_, get := s.Get(ctx, "k")
	_, scan := s.Scan(ctx, "", "", 1, false)
	_, put := s.PutBlob(ctx, nil)
	_, blob := s.Blob(ctx, "")
	for i, err := range []error{read, last, get, scan, put, blob} {
		if !errors.Is(err, cause) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func reopen(t *testing.T, open Home) {
	for round := uint64(1); round <= 3; round++ {
		s := opened(t, open)
		for log := range 5 {
			name := fmt.Sprint("log ", log)
			if got := end(t, s, name); got != (round-1)*10 {
				t.Fatalf("round %d: %s ends at %d", round, name, got)
			}
			first := (round-1)*10 + 1
			s.Commit(store.Batch{
				Log: name, Records: []store.Record{rec(first, first+4), rec(first+5, first+9)},
				Put: []store.KV{{Key: name, Value: fmt.Append(nil, round)}}, Lazy: log%2 == 0,
			})
		}
		must(t, s.Close())
	}
	s := opened(t, open)
	for log := range 5 {
		name := fmt.Sprint("log ", log)
		equal(t, read(t, s, name, 0, 1<<20), []store.Record{rec(1, 5), rec(6, 10), rec(11, 15), rec(16, 20), rec(21, 25), rec(26, 30)})
		if v, err := s.Get(t.Context(), name); err != nil || string(v) != "3" {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
}

func manyWriters(t *testing.T, open Home) {
	s := opened(t, open)
	const writers, batches = 32, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			log := fmt.Sprint("log ", w)
			var tickets []store.Ticket
			for i := uint64(1); i <= batches; i++ {
				tickets = append(tickets, s.Commit(store.Batch{
					Log: log, Records: []store.Record{rec(2*i-1, 2*i)},
					Put: []store.KV{{Key: log, Value: fmt.Append(nil, i)}}, Lazy: w%4 == 0 && i < batches,
				}))
				if i%10 == 0 {
					wait(t, tickets[len(tickets)-1])
				}
			}
			for _, ticket := range tickets {
				wait(t, ticket)
			}
		})
	}
	wg.Wait()
	for w := range writers {
		log := fmt.Sprint("log ", w)
		if rs := read(t, s, log, 0, 1<<20); len(rs) != batches || end(t, s, log) != 2*batches {
			t.Errorf("%s has %d records and ends at %d", log, len(rs), end(t, s, log))
		}
		if v, err := s.Get(t.Context(), log); err != nil || string(v) != fmt.Sprint(batches) {
			t.Errorf("%s: %q, %v", log, v, err)
		}
	}
}

func readWhileWriting(t *testing.T, open Home) {
	s := opened(t, open)
	const batches = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			// The end of the log only grows, and a key that is written with the
			// log is never behind what was read of the log before.
			for seen := uint64(0); seen < batches; {
				rs, err := s.Read(t.Context(), "a", seen, 1<<20)
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range rs {
					if r.First > seen+1 {
						t.Errorf("record %d after %d", r.First, seen)
						return
					}
					seen = r.Last
				}
				if seen == 0 {
					continue
				}
				v, err := s.Get(t.Context(), "end of a")
				if err != nil || len(v) != int(v[0])+1 || uint64(v[0]) < seen {
					t.Errorf("the log was read to %d, the key says %v, %v", seen, v, err)
					return
				}
			}
		})
	}
	for i := 1; i <= batches; i++ {
		tk := s.Commit(store.Batch{
			Log: "a", Records: []store.Record{rec(uint64(i), uint64(i))},
			Put: []store.KV{{Key: "end of a", Value: bytes.Repeat([]byte{byte(i)}, i+1)}}, Lazy: i%10 != 0,
		})
		if i%10 == 0 {
			wait(t, tk)
		}
	}
	wg.Wait()
}
