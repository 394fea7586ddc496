package wiretest

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"
)

// script is one parsed archive.
type script struct {
	file     string            // for messages
	front    string            // whose endpoint URL, TOKEN and so on stand for
	fixtures map[string][]byte // by path: work/… and home/…
	env      []string
	args     []string
	steps    []step
}

// step is one line of a script with its continuation lines.
type step struct {
	line   int
	text   string // as written, for messages
	client string // empty for steps of the gateway
	verb   string // ">", "<<", "ws", "gateway", ...
	rest   string // after the verb, continuation lines included
}

var (
	arrowStep  = regexp.MustCompile(`^([A-Z][A-Za-z0-9_]*)(>bytes|>binary|>|<text|<<=|<<|<=|<~|<!|<)(\s|$)`)
	clientStep = regexp.MustCompile(`^([A-Z][A-Za-z0-9_]*)\s+([a-z]+)(\s|$)`)
	plainStep  = regexp.MustCompile(`^()([a-z]+)(\s|$)`)
)

// parse reads an archive. front is the default front.
func parse(file, front string, data []byte) (*script, error) {
	s := &script{file: file, front: front, fixtures: map[string][]byte{}}
	archive := txtar.Parse(data)
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	for _, f := range archive.Files {
		line++ // the marker
		switch {
		case strings.HasPrefix(f.Name, "work/"), strings.HasPrefix(f.Name, "home/"):
			if path.Clean(f.Name) != f.Name {
				return nil, fmt.Errorf("%s:%d: fixture %q is outside the working directory and the home", file, line-1, f.Name)
			}
			s.fixtures[f.Name] = f.Data
		case f.Name == "env":
			s.env = append(s.env, words(f.Data)...)
		case f.Name == "args":
			s.args = append(s.args, words(f.Data)...)
		default:
			if err := s.parseSteps(line, string(f.Data)); err != nil {
				return nil, err
			}
		}
		line += bytes.Count(f.Data, []byte("\n"))
	}
	if len(s.steps) == 0 {
		return nil, fmt.Errorf("%s: no steps", file)
	}
	return s, nil
}

// words are the lines that say something.
func words(data []byte) []string {
	var out []string
	for l := range strings.Lines(string(data)) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			out = append(out, l)
		}
	}
	return out
}

func (s *script) parseSteps(line int, text string) error {
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, " \t\r\n")
		switch {
		case l == "", l[0] == '#':
		case l[0] == ' ' || l[0] == '\t':
			if len(s.steps) == 0 {
				return fmt.Errorf("%s:%d: a continuation without a step", s.file, line)
			}
			last := &s.steps[len(s.steps)-1]
			last.text += "\n" + l
			last.rest += "\n" + strings.TrimSpace(l)
		default:
			st, err := parseStep(l)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", s.file, line, err)
			}
			st.line = line
			s.steps = append(s.steps, st)
		}
		line++
	}
	return nil
}

func parseStep(l string) (step, error) {
	for _, form := range []*regexp.Regexp{arrowStep, clientStep, plainStep} {
		m := form.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		st := step{text: l, client: m[1], verb: m[2], rest: strings.TrimSpace(l[len(m[0]):])}
		known := clientVerbs[st.verb] != nil
		if st.client == "" {
			known = plainVerbs[st.verb] != nil
		}
		if !known {
			return step{}, fmt.Errorf("%q is not a verb here", st.verb)
		}
		return st, nil
	}
	return step{}, fmt.Errorf("cannot read step %q", l)
}

// fields splits like a shell: space separates, double quotes hold together.
func fields(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	quoted, inWord := false, false
	for _, c := range s {
		switch {
		case c == '"':
			quoted, inWord = !quoted, true
		case !quoted && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}
