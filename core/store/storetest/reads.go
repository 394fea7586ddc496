package storetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

func readsAreCopies(t *testing.T, open Home) {
	s := opened(t, open)
	// Homes may keep small logs in another way than large ones.
	large := store.Record{First: 2, Last: 2, Data: bytes.Repeat([]byte("large "), 20_000)}
	commit(t, s, store.Batch{
		Log: "a", Records: []store.Record{rec(1, 1), {First: 2, Last: 2, Data: bytes.Clone(large.Data)}},
		Put: []store.KV{{Key: "k", Value: []byte("value")}},
	})
	blob, err := s.PutBlob(t.Context(), []byte("blob"))
	must(t, err)
	for range 2 {
		rs := read(t, s, "a", 1, 1<<20)
		equal(t, rs, []store.Record{rec(1, 1), large})
		v, err := s.Get(t.Context(), "k")
		must(t, err)
		kvs := scan(t, s, "k", "", 1, false)
		b, err := s.Blob(t.Context(), blob)
		must(t, err)
		if string(v) != "value" || string(kvs[0].Value) != "value" || string(b) != "blob" {
			t.Fatalf("got %q, %q, %q", v, kvs[0].Value, b)
		}
		rs[0].Data[0], rs[1].Data[0] = '!', '!'
		v[0], kvs[0].Value[1], b[0] = '!', '!', '!'
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
