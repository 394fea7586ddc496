package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// at is some time.
func (s *State) at() time.Time { return time.UnixMilli(1) }

// fold lets output pass through the marks into a state, as a terminal does.
func fold(out string) (st State, events []Event) {
	var p parser
	m := marks{host: "here"}
	for _, b := range []byte(out) {
		for _, tok := range p.feed([]byte{b}) {
			if tok.text != nil {
				m.text(tok.text)
				st.apply(&Event{Kind: Data, Text: string(tok.text)})
				continue
			}
			for _, e := range m.mark(tok.mark, &st, st.at()) {
				st.apply(&e)
				events = append(events, e)
			}
		}
	}
	return st, events
}

func shown(st *State) string {
	var b strings.Builder
	for _, p := range st.Parts {
		if p.Command == "" {
			fmt.Fprintf(&b, "[%s]", p.Text)
			continue
		}
		code := "?"
		if p.Code != nil {
			code = fmt.Sprint(*p.Code)
		}
		fmt.Fprintf(&b, "{%s %q %s %v %s}", p.Command, p.Line, p.Text, p.Complete, code)
	}
	return b.String()
}

func TestCommandsAreToldApart(t *testing.T) {
	t.Parallel()
	const prompt = "\x1b]133;A\a$ \x1b]133;B\a"
	for out, want := range map[string]string{
		"no marks": "[no marks]",
		prompt + "ls\r\n\x1b]133;C\aone\r\n\x1b]133;D;0\a" + prompt:     "[$ ls\r\n]{c1 \"ls\" one\r\n true 0}[$ ]",
		prompt + "lz\b\x1b[Ks x\r\n\x1b]133;C\a":                        "[$ lz\b\x1b[Ks x\r\n]{c1 \"ls x\"  false ?}",
		prompt + "\x1b[?2004hecho b\x1b[1Da\x1b[0m\x1b]133;C\a":         "[$ \x1b[?2004hecho b\x1b[1Da\x1b[0m]{c1 \"echo a\"  false ?}",
		prompt + "ab\x1b[1D\x1b[1@x\b\b\x1b[1P\x1b]133;C\a":             "[$ ab\x1b[1D\x1b[1@x\b\b\x1b[1P]{c1 \"xb\"  false ?}",
		prompt + "x\x1b]133;C;cmdline_url=echo%20%C3%A9\ay":             "[$ x]{c1 \"echo é\" y false ?}",
		prompt + "x\x1b]133;C\a" + prompt + "y\x1b]133;C\a\x1b]133;D\a": "[$ x]{c1 \"x\"  true ?}[$ y]{c2 \"y\"  true ?}",
		"\x1b]133;D;1\a" + prompt:                                       "[$ ]", // nothing ran
		prompt + "x\x1b]133;C\a\x1b]133;C\a":                            "[$ x]{c1 \"x\"  true ?}{c2 \"\"  false ?}",
	} {
		st, _ := fold(out)
		if got := shown(&st); got != want {
			t.Errorf("%q:\n got %q\nwant %q", out, got, want)
		}
	}
}

func TestTheDirectoryIsTheShellsOwnWord(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///tmp/a%20b": "/tmp/a b", "file://localhost/x/../y": "/y", "file://HERE/z": "/z",
		"file://elsewhere/x": "", "http://here/x": "", "file:///a%00b": "", "file:///a%ffb": "", "file:///%zz": "", "relative": "",
		"file:///" + strings.Repeat("x", maxDir): "",
	} {
		st, events := fold("\x1b]7;" + uri + "\a\x1b]7;" + uri + "\a")
		if st.Dir != want || len(events) != len(want[:min(1, len(want))]) {
			t.Errorf("%.40s: %q by %v", uri, st.Dir, events)
		}
	}
}

func TestTheNewestOutputIsKept(t *testing.T) {
	t.Parallel()
	var st State
	for i := range 100_000 {
		st.apply(&Event{Kind: Data, Text: fmt.Sprintf("line %d\r\n", i)})
	}
	text := string(st.Parts[0].Text)
	if len(text) < scrollback-lineSearch || len(text) > scrollback+scrollbackOver {
		t.Errorf("%d bytes are kept", len(text))
	}
	if !strings.HasPrefix(text, "line ") || !strings.HasSuffix(text, "line 99999\r\n") {
		t.Errorf("kept: %.20q … %q", text, text[len(text)-20:])
	}
	for i := range 3 * maxParts {
		st.apply(&Event{Kind: Executed, Command: fmt.Sprint(i), Text: "true"})
		st.apply(&Event{Kind: Finished, Command: fmt.Sprint(i)})
	}
	if n := len(st.Parts); n != maxParts {
		t.Errorf("%d parts are kept", n)
	}
	st.apply(&Event{Kind: Cleared})
	if len(st.Parts) != 0 || st.size != 0 {
		t.Errorf("after clearing: %d parts, %d bytes", len(st.Parts), st.size)
	}
}

func TestACutLeavesCharactersAndSequencesWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "🙂", "\x1b[1;31m", "\x1b]0;t\a", "\x1b(B"})).Draw(rt, "pieces"), ""))
		n := rapid.IntRange(0, len(b)).Draw(rt, "n")
		cut := cutPlace(b, n)
		if cut < n || cut > len(b) || !utf8.Valid(b[cut:]) || !utf8.Valid(b[:cut]) {
			rt.Fatalf("%q at %d: cut at %d", b, n, cut)
		}
		var q sequence
		for _, c := range b[:cut] {
			q.step(c)
		}
		if q.state != plain {
			rt.Fatalf("%q at %d: cut at %d, inside of a sequence", b, n, cut)
		}
	})
}
