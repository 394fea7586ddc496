package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns records as text and skipped ones as "!length".
func read(t testing.TB, r *Reader) []string {
	t.Helper()
	var got []string
	for {
		rec, err := r.Next()
		var long *TooLongError
		switch {
		case errors.As(err, &long):
			got = append(got, fmt.Sprint("!", long.Length))
		case err == io.EOF:
			return got
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(rec))
		}
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("é", 100_000)
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  []string
	}{
		"plain":                      {"a\nb\n", 0, []string{"a", "b"}},
		"last without LF":            {"a\nb", 0, []string{"a", "b"}},
		"empty ones count":           {"\n\na\n", 0, []string{"", "", "a"}},
		"CRLF":                       {"a\r\nb\r\r\n", 0, []string{"a", "b\r"}},
		"separators are text":        {"a\u2028b\u2029c\u0085\rd\n", 0, []string{"a\u2028b\u2029c\u0085\rd"}},
		"longer than a buffer":       {big + "\nx\n" + big, 0, []string{big, "x", big}},
		"exactly the limit":          {"12345\n12345", 5, []string{"12345", "12345"}},
		"one over":                   {"123456\nok\n123456", 5, []string{"!6", "ok", "!6"}},
		"far over, the reader lives": {big + "\nok\n", 1000, []string{"!200000", "ok"}},
		"nothing":                    {"", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.HalfReader(strings.NewReader(tc.in))} {
				got := read(t, NewReader(r, tc.limit))
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
					t.Fatalf("got %.200q, want %.200q", got, tc.want)
				}
			}
		})
	}
}

func TestLimitIsPerRecord(t *testing.T) {
	t.Parallel()
	r := NewReader(strings.NewReader(strings.Repeat("0123456789\n", 100_000)), 10)
	if n := len(read(t, r)); n != 100_000 {
		t.Fatalf("%d records", n)
	}
}

func TestBrokenPipeIsReported(t *testing.T) {
	t.Parallel()
	r := NewReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(io.ErrClosedPipe)), 0)
	if rec, err := r.Next(); string(rec) != "a" || err != nil {
		t.Fatal(string(rec), err)
	}
	if _, err := r.Next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\r\nbb\n\nccc"), 2)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + limit&0xff
		var want []string
		rest := data
		for len(rest) > 0 {
			rec, after, _ := bytes.Cut(rest, []byte("\n"))
			rest = after
			if len(rec) > limit {
				want = append(want, fmt.Sprint("!", len(rec)))
			} else {
				want = append(want, string(bytes.TrimSuffix(rec, []byte("\r"))))
			}
		}
		if got := read(t, NewReader(bytes.NewReader(data), limit)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
