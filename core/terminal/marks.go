package terminal

import (
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// marks follows the shell's marks and tells what they mean.
type marks struct {
	host    string // this machine's name
	typed   lineReader
	typing  bool // between a prompt and its command
	running string
	since   time.Time
	count   int
}

// text notes what was shown: between prompt and command it is what was typed.
func (m *marks) text(b []byte) {
	if m.typing {
		m.typed.write(b)
	}
}

// mark returns the events of a mark, in order.
func (m *marks) mark(s string, st *State, now time.Time) []Event {
	if uri, ok := strings.CutPrefix(s, "7;"); ok {
		if dir, ok := m.directory(uri); ok && dir != st.Dir {
			return []Event{{Kind: Moved, Text: dir}}
		}
		return nil
	}
	fields := strings.Split(strings.TrimPrefix(s, "133;"), ";")
	var out []Event
	switch fields[0] {
	case "A", "B":
		if !st.Detects {
			out = append(out, Event{Kind: Detects})
		}
		out = append(out, m.finish(nil, now)...) // a prompt, and nobody said how the command ended
		m.typing = fields[0] == "B"
		m.typed = lineReader{}
	case "C":
		out = m.finish(nil, now)
		line := m.typed.String()
		for _, f := range fields[1:] {
			if enc, ok := strings.CutPrefix(f, "cmdline_url="); ok {
				if dec, err := url.PathUnescape(enc); err == nil && dec != "" {
					line = dec
				}
			}
		}
		m.typing, m.typed = false, lineReader{}
		m.count++
		m.running, m.since = "c"+strconv.Itoa(m.count), now
		out = append(out, Event{Kind: Executed, Command: m.running, Text: clip(line, maxLine), At: now})
	case "D":
		var code *int
		if len(fields) > 1 {
			if n, err := strconv.Atoi(fields[1]); err == nil {
				code = &n
			}
		}
		out = m.finish(code, now)
	}
	return out
}

// finish ends the running command, if there is one.
func (m *marks) finish(code *int, now time.Time) []Event {
	if m.running == "" {
		return nil
	}
	e := Event{Kind: Finished, Command: m.running, Code: code, Took: max(0, now.Sub(m.since))}
	m.running = ""
	return []Event{e}
}

// directory reads a file: URI of this machine.
func (m *marks) directory(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || len(u.Path) > maxDir || !path.IsAbs(u.Path) || !utf8.ValidString(u.Path) || strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	if h := u.Hostname(); h != "" && h != "localhost" && !strings.EqualFold(h, m.host) {
		return "", false // a shell on another machine
	}
	return path.Clean(u.Path), true
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "" // then only marks without a name count
	}
	return name
}

// clip shortens a text to n bytes, between characters.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// lineReader reads a line back from what a line editor shows of it: text that
// is written over, and the few movements that editing a line needs.
type lineReader struct {
	line []rune
	at   int
	seq  sequence
	args []byte // of a control sequence
}

func (l *lineReader) write(b []byte) {
	for _, r := range string(b) {
		c := byte(0xff) // no sequence but a string has it
		if r < utf8.RuneSelf {
			c = byte(r)
		}
		inside := l.seq.state != plain
		belongs, over := l.seq.step(c)
		if over && !belongs { // the sequence was given up
			l.args, inside = l.args[:0], false
			belongs, over = l.seq.step(c)
		}
		switch {
		case belongs && over:
			l.move(c)
			l.args = l.args[:0]
		case belongs && inside:
			if len(l.args) < 16 {
				l.args = append(l.args, c)
			}
		case belongs:
		default:
			l.put(r)
		}
	}
}

func (l *lineReader) put(r rune) {
	switch {
	case r == '\b':
		l.at = max(0, l.at-1)
	case r == '\r':
		l.at = 0
	case r < ' ' || r == 0x7f:
	case l.at < len(l.line):
		l.line[l.at] = r
		l.at++
	case len(l.line) < maxLine:
		l.line = append(l.line, r)
		l.at++
	}
}

// move does what a control sequence says.
func (l *lineReader) move(final byte) {
	if len(l.args) == 0 || l.args[0] != '[' {
		return
	}
	n, err := strconv.Atoi(string(l.args[1:]))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, maxLine)
	switch final {
	case 'C':
		l.at = min(len(l.line), l.at+n)
	case 'D':
		l.at = max(0, l.at-n)
	case 'K':
		l.line = l.line[:l.at]
	case 'P':
		l.line = append(l.line[:l.at], l.line[min(len(l.line), l.at+n):]...)
	case '@':
		if len(l.line)+n <= maxLine {
			blank := []rune(strings.Repeat(" ", n))
			l.line = append(l.line[:l.at], append(blank, l.line[l.at:]...)...)
		}
	}
}

// String is the line without the blanks around it.
func (l *lineReader) String() string { return strings.TrimSpace(string(l.line)) }
