package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// spelled is what tokens say, as one text.
func spelled(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.text != nil {
			b.Write(t.text)
			continue
		}
		b.WriteString("<" + t.mark + ">")
	}
	return b.String()
}

func parseSplit(s string, cuts ...int) string {
	var p parser
	var b strings.Builder
	at := 0
	for _, c := range append(cuts, len(s)) {
		if c < at || c > len(s) {
			continue
		}
		b.WriteString(spelled(p.feed([]byte(s[at:c]))))
		at = c
	}
	return b.String() + spelled(p.end())
}

func TestMarksAreTakenOutOfTheOutput(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\r\n":                                 "plain\r\n",
		"a\x1b]133;A\ab":                            "a<133;A>b",
		"a\x1b]133;D;1\x1b\\b":                      "a<133;D;1>b",
		"\x1b]7;file://h/tmp\a$ ":                   "<7;file://h/tmp>$ ",
		"\x1b[1;31mred\x1b[0m":                      "\x1b[1;31mred\x1b[0m",
		"\x1b]0;title\a.":                           "\x1b]0;title\a.",
		"\x1b]133;A\x1b[0mx":                        "\x1b]133;A\x1b[0mx", // given up: another sequence begins
		"\x1b]133;A\x18x":                           "\x1b]133;A\x18x",
		"\x1b\x1b]133;B\ax":                         "\x1b<133;B>x",
		"\x1b[3\x1b]133;B\ax":                       "\x1b[3<133;B>x",
		"\x1bP\x1b]133;A\a":                         "\x1bP<133;A>",
		"\x1b(0q\x1b)B":                             "\x1b(0q\x1b)B",
		"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82": "café € 🙂",
		"\xff\xfe\xe2\x82a\xe2\x1b[m":               "\uFFFD\uFFFD\uFFFD\uFFFDa\uFFFD\x1b[m",
		"end\xe2\x82":                               "end\uFFFD\uFFFD",
		"open\x1b]133;A":                            "open\x1b]133;A",
		"\x1b]133;C;" + strings.Repeat("x", maxSequence) + "\ay": "\x1b]133;C;" + strings.Repeat("x", maxSequence) + "\ay",
	} {
		if got := parseSplit(in); got != want {
			t.Errorf("%.60q: got %.80q, want %.80q", in, got, want)
		}
	}
}

var pieces = []string{"\x1b", "\x1b]", "133;A", "133;D;0", "7;file:///", "\a", "\x1b\\", "[", "1;2", "m", "\xc3", "\xa9", "é", "🙂", "\xf0\x9f", "x", "\x18", "\r\n", "P", "\x1b[", "(", "\xff"}

func TestAnySplitGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(rt, "pieces"), "")
		whole := parseSplit(s)
		if got := parseSplit(s, rapid.SliceOf(rapid.IntRange(0, len(s))).Draw(rt, "cuts")...); got != whole {
			rt.Fatalf("%q: split %q, whole %q", s, got, whole)
		}
		if one := parseSplit(s, everyByte(s)...); one != whole {
			rt.Fatalf("%q: byte by byte %q, whole %q", s, one, whole)
		}
	})
}

func everyByte(s string) []int {
	cuts := make([]int, len(s))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{"a\x1b]133;C;cmdline_url=ls%20-l\ab", "\x1b]7;file://h/%ff\x1b\\", "\x1b]133;D;x;y\a", "\xf0\x9f\x1b[3", "\x1b]133;B\aab\b\x1b[K\x1b[2D\x1b[1P\x1b[1@c\x1b]133;C\a"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		whole := parseSplit(s)
		if got := parseSplit(s, cut); got != whole {
			t.Fatalf("split at %d: %q, whole %q", cut, got, whole)
		}
		var p parser
		var m marks
		var st State
		tokens := append(p.feed([]byte(s)), token{})
		for _, tok := range append(tokens[:len(tokens)-1], p.end()...) {
			if tok.text != nil {
				if !utf8.Valid(tok.text) {
					t.Fatalf("no text: %q", tok.text)
				}
				m.text(tok.text)
				st.apply(&Event{Kind: Data, Text: string(tok.text)})
				continue
			}
			for _, e := range m.mark(tok.mark, &st, st.at()) {
				if !utf8.ValidString(e.Text) {
					t.Fatalf("no text: %q", e.Text)
				}
				st.apply(&e)
			}
		}
	})
}
