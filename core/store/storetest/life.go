package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

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
