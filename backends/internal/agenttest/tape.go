package agenttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
)

const (
	// tapeVar names the tape that the process plays, or records.
	tapeVar = "POLYHOST_TAPE"
	// placeVar names the file that counts the processes of a tape.
	placeVar = "POLYHOST_TAPE_PLACE"
	// recordVar names the real program, to record it.
	recordVar = "POLYHOST_TAPE_OF"
)

// entry is a line of a tape: the start of a process with its arguments, a line
// of the driver, or a line of the CLI.
type entry struct {
	Start []string        `json:"start,omitempty"`
	In    json.RawMessage `json:"in,omitempty"`
	Out   json.RawMessage `json:"out,omitempty"`
}

// Main is to be called by TestMain: in a process that was started in place of
// a CLI it plays or records a tape, and does not return.
func Main() {
	tape := os.Getenv(tapeVar)
	if tape == "" {
		return
	}
	run := func() error { return play(tape, os.Getenv(placeVar)) }
	if program := os.Getenv(recordVar); program != "" {
		run = func() error { return record(program, tape) }
	}
	err := run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// record runs the program and writes down what passes.
func record(program, tape string) error {
	f, err := os.OpenFile(tape, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var mu sync.Mutex
	note := func(e entry) {
		b, _ := json.Marshal(e)
		mu.Lock()
		defer mu.Unlock()
		_, _ = f.Write(append(b, '\n'))
	}
	note(entry{Start: os.Args[1:]})
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the process
		defer in.Close()
		pass(os.Stdin, in, func(line []byte) { note(entry{In: asJSON(line)}) })
	}()
	pass(out, os.Stdout, func(line []byte) { note(entry{Out: asJSON(line)}) })
	return cmd.Wait()
}

// pass hands lines on; each is noted before.
func pass(from io.Reader, to io.Writer, note func([]byte)) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			note(bytes.TrimRight(line, "\n"))
			if _, err := to.Write(line); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// asJSON is the line, or a JSON string of it if it is no JSON.
func asJSON(line []byte) json.RawMessage {
	if json.Valid(line) {
		return line
	}
	b, _ := json.Marshal(string(line))
	return b
}

// player is the CLI's side of a tape.
type player struct {
	lines   chan []byte       // of the driver
	early   [][]byte          // that are not due yet
	bound   map[string]string // the tape's ids that the driver made, and its own
	said    map[string]bool   // ids that the CLI made
	asked   map[string]json.RawMessage
	project string
}

// token is an id on a tape.
var token = regexp.MustCompile(`\bid-\d+\b`)

// play is the process of the tape that is due: place counts them.
func play(tape, place string) error {
	count, err := os.OpenFile(place, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer count.Close()
	if _, err := count.WriteString("."); err != nil {
		return err
	}
	nth, err := count.Stat()
	if err != nil {
		return err
	}
	entries, err := process(tape, int(nth.Size()))
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	p := &player{lines: make(chan []byte, 100), bound: map[string]string{}, said: map[string]bool{}, asked: map[string]json.RawMessage{}, project: dir}
	go func() {
		defer close(p.lines)
		lines := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			p.lines <- line
		}
	}()
	if len(entries[0].Start) == len(os.Args)-1 {
		for i, arg := range entries[0].Start {
			if err := p.bind(arg, os.Args[i+1]); err != nil {
				return err
			}
		}
	}
	for _, e := range entries[1:] {
		if e.In == nil {
			p.say(e.Out)
			continue
		}
		if err := p.await(e.In); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	for range p.lines { // until the driver has enough
	}
	return nil
}

// process reads what belongs to the tape's nth process, its start first.
func process(tape string, nth int) (entries []entry, err error) {
	b, err := os.ReadFile(tape)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", tape, err)
		}
		if e.Start != nil {
			nth--
		}
		if nth == 0 {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("the tape has no further process")
	}
	return entries, nil
}

// say says a line of the CLI with the ids of this run.
func (p *player) say(line json.RawMessage) {
	var text string
	if json.Unmarshal(line, &text) != nil {
		if live := p.asked[answers(line)]; live != nil {
			line = withAnswered(line, live)
		}
		text = string(line)
	}
	text = token.ReplaceAllStringFunc(text, func(id string) string {
		if live, ok := p.bound[id]; ok {
			return live
		}
		p.said[id] = true
		return id
	})
	fmt.Println(strings.ReplaceAll(text, projectName, p.project))
}

// await waits for the driver's line of the same kind.
func (p *player) await(want json.RawMessage) error {
	kind := kindOf(want)
	for i := 0; ; i++ {
		if i == len(p.early) {
			line, ok := <-p.lines
			if !ok {
				return io.EOF
			}
			p.early = append(p.early, line)
		}
		line := p.early[i]
		if kindOf(line) != kind {
			continue
		}
		p.early = append(p.early[:i:i], p.early[i+1:]...)
		if h := headOf(want); h.Method != "" || h.Type != "" {
			if recorded, live := h.id(), headOf(line).id(); len(recorded) > 0 {
				p.asked[string(recorded)] = live
			}
		}
		var recorded, live any
		_ = json.Unmarshal(want, &recorded)
		_ = json.Unmarshal(line, &live)
		return p.bind(recorded, live)
	}
}

// bind learns the driver's ids from a line, and checks that it repeats the
// CLI's.
func (p *player) bind(recorded, live any) error {
	switch r := recorded.(type) {
	case map[string]any:
		if l, ok := live.(map[string]any); ok {
			for name, v := range r {
				if err := p.bind(v, l[name]); err != nil {
					return err
				}
			}
		}
	case []any:
		if l, ok := live.([]any); ok && len(l) == len(r) {
			for i := range r {
				if err := p.bind(r[i], l[i]); err != nil {
					return err
				}
			}
		}
	case string:
		l, ok := live.(string)
		switch {
		case !ok || token.FindString(r) != r || r == "":
		case p.said[r] && l != r:
			return fmt.Errorf("the driver says %q where %q belongs", l, r)
		case !p.said[r]:
			p.bound[r] = l
		}
	}
	return nil
}
