package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

func opened(t *testing.T, open Home) store.Store {
	t.Helper()
	s := open()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// rec is a record whose data tell its numbers.
func rec(first, last uint64) store.Record {
	return store.Record{First: first, Last: last, Data: fmt.Appendf(nil, "%d-%d", first, last)}
}

func commit(t *testing.T, s store.Store, b store.Batch) {
	t.Helper()
	wait(t, s.Commit(b))
}

// wait may be called from any goroutine.
func wait(t *testing.T, tk store.Ticket) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := store.Wait(ctx, tk); err != nil {
		t.Errorf("commit: %v", err)
	}
}

func read(t *testing.T, s store.Store, log string, from uint64, maxBytes int) []store.Record {
	t.Helper()
	rs, err := s.Read(t.Context(), log, from, maxBytes)
	must(t, err)
	return rs
}

func end(t *testing.T, s store.Store, log string) uint64 {
	t.Helper()
	n, err := s.Last(t.Context(), log)
	must(t, err)
	return n
}

func scan(t *testing.T, s store.Store, prefix, after string, limit int, reverse bool) []store.KV {
	t.Helper()
	kvs, err := s.Scan(t.Context(), prefix, after, limit, reverse)
	must(t, err)
	return kvs
}

func keys(kvs []store.KV) string {
	var out []string
	for _, kv := range kvs {
		out = append(out, kv.Key)
	}
	return strings.Join(out, " ")
}

func equal(t *testing.T, got, want []store.Record) {
	t.Helper()
	if !slices.EqualFunc(got, want, sameRecord) {
		t.Errorf("got %v, want %v", numbers(got), numbers(want))
	}
}

func sameRecord(a, b store.Record) bool {
	return a.First == b.First && a.Last == b.Last && bytes.Equal(a.Data, b.Data)
}

func numbers(rs []store.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%d-%d:%.20q", r.First, r.Last, r.Data))
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
