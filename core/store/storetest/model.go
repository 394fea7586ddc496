package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/core/store"
)

// RunModel compares homes with the simplest thing that could keep the contract,
// under random calls.
func RunModel(t *testing.T, newHome func(t *testing.T) Home) {
	rapid.Check(t, func(rt *rapid.T) {
		open := newHome(t)
		m := &machine{t: t, open: open, s: open(), logs: map[string][]store.Record{}, keys: map[string]string{}}
		defer func() { must(t, m.s.Close()) }()
		rt.Repeat(map[string]func(*rapid.T){
			"":       m.settle,
			"commit": m.commit,
			"gap":    m.gap,
			"read":   m.read,
			"scan":   m.scan,
			"reopen": m.reopen,
		})
	})
}

// machine is a home with the model of it.
type machine struct {
	t       *testing.T
	open    Home
	s       store.Store
	logs    map[string][]store.Record
	keys    map[string]string
	pending []expected
}

// expected is a ticket with whether its batch is refused.
type expected struct {
	store.Ticket
	refused bool
}

var (
	someLog  = rapid.SampledFrom([]string{"a", "b", "ab"})
	someKey  = rapid.StringMatching(`[ab\xff]{1,3}`)
	someSpan = rapid.SampledFrom([]uint64{1, 1, 2, 255, 1 << 33})
)

func (m *machine) end(log string) uint64 {
	if rs := m.logs[log]; len(rs) > 0 {
		return rs[len(rs)-1].Last
	}
	return 0
}

func (m *machine) records(rt *rapid.T, first uint64) (rs []store.Record) {
	for range rapid.IntRange(1, 4).Draw(rt, "records") {
		last := first + someSpan.Draw(rt, "span") - 1
		rs = append(rs, store.Record{First: first, Last: last, Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "data")})
		first = last + 1
	}
	return rs
}

// commit commits a few batches that must be taken, some to one log after another.
func (m *machine) commit(rt *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(rt, "batches") {
		b := store.Batch{Lazy: rapid.Bool().Draw(rt, "lazy")}
		if rapid.IntRange(0, 4).Draw(rt, "drop") == 0 {
			b.DropLog = someLog.Draw(rt, "dropped")
			delete(m.logs, b.DropLog)
		}
		for range rapid.IntRange(0, 3).Draw(rt, "deletes") {
			b.Delete = append(b.Delete, someKey.Draw(rt, "deleted"))
			delete(m.keys, b.Delete[len(b.Delete)-1])
		}
		for range rapid.IntRange(0, 3).Draw(rt, "puts") {
			k, v := someKey.Draw(rt, "key"), rapid.String().Draw(rt, "value")
			b.Put = append(b.Put, store.KV{Key: k, Value: []byte(v)})
			m.keys[k] = v
		}
		if rapid.Bool().Draw(rt, "append") {
			b.Log = someLog.Draw(rt, "log")
			b.Records = m.records(rt, m.end(b.Log)+1)
			for _, r := range b.Records {
				r.Data = bytes.Clone(r.Data)
				m.logs[b.Log] = append(m.logs[b.Log], r)
			}
		}
		m.pending = append(m.pending, expected{Ticket: m.s.Commit(b)})
	}
}

// gap commits what does not continue its log, and something behind it.
func (m *machine) gap(rt *rapid.T) {
	log := someLog.Draw(rt, "log")
	first := m.end(log) + rapid.Uint64Range(2, 300).Draw(rt, "ahead")
	m.pending = append(m.pending,
		expected{m.s.Commit(store.Batch{Log: log, Records: m.records(rt, first), Put: []store.KV{{Key: "a"}}}), true},
		expected{m.s.Commit(store.Batch{Log: log, Put: []store.KV{{Key: "b"}}}), true})
}

// settle runs after each step and, now and then, waits for what is committed.
func (m *machine) settle(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "settle") == 0 {
		m.wait(rt)
	}
}

func (m *machine) wait(rt *rapid.T) {
	for _, p := range m.pending {
		err := store.Wait(m.t.Context(), p)
		if p.refused != (err != nil) || err != nil && !errors.Is(err, store.ErrGap) {
			rt.Fatalf("ticket of a batch (to be refused: %t): %v", p.refused, err)
		}
	}
	m.pending = nil
}

func (m *machine) read(rt *rapid.T) {
	m.wait(rt)
	log := someLog.Draw(rt, "log")
	last, err := m.s.Last(m.t.Context(), log)
	if err != nil || last != m.end(log) {
		rt.Fatalf("log %q ends at %d, %v, want %d", log, last, err, m.end(log))
	}
	from := rapid.Uint64Range(0, last+1).Draw(rt, "from")
	limit := rapid.IntRange(0, 200).Draw(rt, "bytes")
	var want []store.Record
	size := 0
	for _, r := range m.logs[log] {
		if r.Last < from {
			continue
		}
		if size += len(r.Data); len(want) > 0 && size > limit {
			break
		}
		want = append(want, r)
	}
	got, err := m.s.Read(m.t.Context(), log, from, limit)
	if err != nil || !slices.EqualFunc(got, want, sameRecord) {
		rt.Fatalf("log %q from %d: %v, %v, want %v", log, from, numbers(got), err, numbers(want))
	}
}

func (m *machine) scan(rt *rapid.T) {
	m.wait(rt)
	prefix := rapid.OneOf(rapid.Just(""), someKey).Draw(rt, "prefix")
	after := rapid.OneOf(rapid.Just(""), someKey).Draw(rt, "after")
	limit := rapid.IntRange(0, 10).Draw(rt, "limit")
	reverse := rapid.Bool().Draw(rt, "reverse")
	var want []string
	for _, k := range slices.Sorted(maps.Keys(m.keys)) {
		if strings.HasPrefix(k, prefix) && (after == "" || k != after && (k < after) == reverse) {
			want = append(want, fmt.Sprintf("%q=%q", k, m.keys[k]))
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]
	kvs, err := m.s.Scan(m.t.Context(), prefix, after, limit, reverse)
	var got []string
	for _, kv := range kvs {
		got = append(got, fmt.Sprintf("%q=%q", kv.Key, kv.Value))
	}
	if err != nil || !slices.Equal(got, want) {
		rt.Fatalf("keys of %q after %q limit %d reverse %t: %q, %v, want %q", prefix, after, limit, reverse, got, err, want)
	}
}

func (m *machine) reopen(rt *rapid.T) {
	must(m.t, m.s.Close())
	m.wait(rt)
	m.s = m.open()
}
