package terminal

import (
	"bytes"
	"slices"
	"time"
	"unicode/utf8"
)

// State is what a terminal is and shows.
type State struct {
	Title string
	// Dir is the shell's working directory, absolute: where it began, and
	// later what the shell says.
	Dir        string
	Cols, Rows int
	Parts      []Part
	// Detects: the shell marks its commands.
	Detects bool
	Exited  bool
	// Code is the exit code of the leader; nil while it runs, and when it
	// cannot be told.
	Code *int

	size int // of the parts' texts
}

// Part is a stretch of output: of one command, or of none that is known.
type Part struct {
	Text []byte
	// Command is the command's id within the terminal; "" for other output.
	Command string
	Line    string
	At      time.Time
	// Complete: the command has ended, with Code if the shell told it.
	Complete bool
	Code     *int
	Took     time.Duration
}

// Kind is what an event says.
type Kind uint8

// The kinds of events, and which fields of Event they fill.
const (
	Data     Kind = iota // Text
	Resized              // Cols, Rows
	Titled               // Text
	Moved                // Text: a directory
	Cleared              //
	Detects              //
	Executed             // Command, Text: the command line, At
	Finished             // Command, Code, Took
	Exited               // Code
)

// Event is something that happened to a terminal.
type Event struct {
	Kind       Kind
	Text       string
	Cols, Rows int
	Command    string
	At         time.Time
	Code       *int
	Took       time.Duration
	// Cause is what the caller gave who made it happen.
	Cause any
}

// apply folds an event into the state.
func (s *State) apply(e *Event) {
	switch e.Kind {
	case Data:
		s.add(e.Text)
	case Resized:
		s.Cols, s.Rows = e.Cols, e.Rows
	case Titled:
		s.Title = e.Text
	case Moved:
		s.Dir = e.Text
	case Cleared:
		s.Parts, s.size = nil, 0
	case Detects:
		s.Detects = true
	case Executed:
		s.Parts = append(s.Parts, Part{Command: e.Command, Line: e.Text, At: e.At})
		s.size += len(e.Text)
		s.trim()
	case Finished:
		for i := range s.Parts {
			if p := &s.Parts[i]; p.Command == e.Command {
				p.Complete, p.Code, p.Took = true, e.Code, e.Took
			}
		}
	case Exited:
		s.Exited, s.Code = true, e.Code
	}
}

// add appends output to the command that runs, or to other output.
func (s *State) add(text string) {
	n := len(s.Parts)
	if n == 0 || s.Parts[n-1].Complete {
		s.Parts = append(s.Parts, Part{})
		n++
	}
	p := &s.Parts[n-1]
	p.Text = append(p.Text, text...)
	s.size += len(text)
	s.trim()
}

// trim forgets the oldest output once there is too much.
func (s *State) trim() {
	if over := len(s.Parts) - maxParts; over > 0 {
		for _, p := range s.Parts[:over] {
			s.size -= p.bytes()
		}
		s.Parts = slices.Delete(s.Parts, 0, over)
	}
	if s.size <= scrollback+scrollbackOver {
		return
	}
	for s.size > scrollback {
		p := &s.Parts[0]
		over := s.size - scrollback
		if over >= p.bytes() && len(s.Parts) > 1 {
			s.size -= p.bytes()
			s.Parts = slices.Delete(s.Parts, 0, 1)
			continue
		}
		cut := cutPlace(p.Text, over)
		s.size -= cut
		p.Text = append(make([]byte, 0, len(p.Text)-cut+scrollbackOver), p.Text[cut:]...)
		return
	}
}

func (p *Part) bytes() int { return len(p.Text) + len(p.Line) }

// cutPlace is where a text may be cut, at n or a little behind it: before a
// line, or else between two characters and outside of escape sequences.
func cutPlace(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	if i := bytes.IndexByte(b[n:min(len(b), n+lineSearch)], '\n'); i >= 0 {
		return n + i + 1
	}
	from := max(0, n-maxSequence)
	if i := bytes.LastIndexByte(b[from:n], esc); i >= 0 {
		var q sequence
		for i += from; i < len(b); i++ {
			belongs, over := q.step(b[i])
			if !belongs || over {
				if belongs {
					i++
				}
				n = max(n, i)
				break
			}
		}
	}
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}
