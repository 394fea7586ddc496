package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// script does lines for the conversation itself or for one subagent.
type script struct {
	t     *turn
	child string // the subagent's key
	of    string // the call that spawned it
	above *script
	depth int
	said  string // the latest text, which is a subagent's result
}

// put says frames; it fails once the turn was interrupted.
func (s *script) put(frames ...agent.Frame) error {
	for i := range frames {
		if frames[i].Child == "" {
			frames[i].Child = s.child
		}
	}
	s.t.note(frames)
	return s.t.c.out.Put(s.t.ctx, frames...)
}

// toolWords are the directives that need a tool, or somebody who answers.
var toolWords = []string{"run", "write", "read", "call", "ask", "spawn", "server", "use", "background", "command", "skill"}

// do does one line. An error ends the turn.
func (s *script) do(line string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	args := strings.Fields(rest)
	switch {
	case word == "crash" && rest == "":
		return ErrCrashed
	case word == "plugins" && rest == "":
		return s.plugins()
	case rest == "", s.t.c.bare && slices.Contains(toolWords, word):
		return s.say(agent.TextDelta, line)
	}
	switch word {
	case "say":
		return s.say(agent.TextDelta, rest)
	case "think":
		return s.say(agent.ReasoningDelta, rest)
	case "stream":
		if n, ok := numbers(args, 2, maxStream, maxDelta, maxPause); ok {
			return s.stream(n[0], n[1], n[2])
		}
	case "run":
		return s.bash(rest)
	case "write":
		if path, text, ok := strings.Cut(rest, " "); ok {
			return s.write(path, text)
		}
	case "read":
		return s.read(rest)
	case "call":
		tool, input, _ := strings.Cut(rest, " ")
		return s.call(tool, strings.TrimSpace(input))
	case "ask":
		return s.ask(strings.Split(rest, "|"))
	case "plan":
		return s.plan(strings.Split(rest, ";"))
	case "spawn":
		if name, text, ok := strings.Cut(rest, " "); ok {
			return s.spawn(name, strings.TrimSpace(text))
		}
	case "progress":
		if s.above != nil {
			return s.above.put(agent.Frame{Kind: agent.Progress, Call: s.of, Text: rest})
		}
	case "usage":
		if n, ok := numbers(args, 2, 1<<40, 1<<40); ok {
			return s.put(agent.Frame{Kind: agent.Usage, Usage: &event.Usage{
				Input: int64(n[0]), Output: int64(n[1]), Model: s.t.model}})
		}
	case "server":
		if name, more, ok := strings.Cut(rest, " "); ok {
			state, text, _ := strings.Cut(strings.TrimSpace(more), " ")
			if done, err := s.server(name, state, strings.TrimSpace(text)); done || err != nil {
				return err
			}
		}
	case "use":
		if name, more, ok := strings.Cut(rest, " "); ok {
			tool, text, _ := strings.Cut(strings.TrimSpace(more), " ")
			return s.useServer(name, tool, strings.TrimSpace(text))
		}
	case "background":
		name, command, _ := strings.Cut(rest, " ")
		if done, err := s.background(name, strings.TrimSpace(command)); done || err != nil {
			return err
		}
	case "command", "skill":
		if name, text, ok := strings.Cut(rest, " "); ok {
			done, err := s.offers(agent.Command{Name: name, Description: strings.TrimSpace(text), Skill: word == "skill"})
			if done || err != nil {
				return err
			}
		}
	case "sleep":
		if n, ok := numbers(args, 1, maxPause); ok {
			return pause(s.t.ctx, n[0])
		}
	case "fail":
		return failure(rest)
	}
	return s.say(agent.TextDelta, line)
}

// numbers reads at least need whole numbers, each from 0 to its limit; what
// may be left out is 0.
func numbers(args []string, need int, limits ...int) ([]int, bool) {
	if len(args) < need || len(args) > len(limits) {
		return nil, false
	}
	out := make([]int, len(limits))
	for i, a := range args {
		n, err := strconv.Atoi(a)
		if err != nil || n < 0 || n > limits[i] {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// say streams text as one part, a delta per word.
func (s *script) say(kind agent.FrameKind, text string) error {
	part := s.t.c.newID("part")
	for _, word := range strings.SplitAfter(text, " ") {
		if err := s.put(agent.Frame{Kind: kind, Part: part, Text: word}); err != nil {
			return err
		}
	}
	if kind == agent.TextDelta {
		s.said = text
	}
	return s.put(agent.Frame{Kind: agent.PartDone, Part: part})
}

// stream says n deltas of the same size, as fast as the host takes them
// unless a delay is asked for.
func (s *script) stream(n, size, delay int) error {
	const alphabet = "abcdefghijklmnopqrstuvwxyz012345"
	f := agent.Frame{Kind: agent.TextDelta, Child: s.child, Part: s.t.c.newID("part"),
		Text: strings.Repeat(alphabet, size/len(alphabet)+1)[:size]}
	burst := max(1, min(streamBatch, streamBytes/max(size, 1)))
	if delay > 0 {
		burst = 1
	}
	frames := make([]agent.Frame, burst)
	for i := range frames {
		frames[i] = f
	}
	for n > 0 {
		k := min(n, burst)
		s.t.note(frames[:k])
		if err := s.t.c.out.Put(s.t.ctx, frames[:k]...); err != nil {
			return err
		}
		if n -= k; delay > 0 {
			if err := pause(s.t.ctx, delay); err != nil {
				return err
			}
		}
	}
	s.said = f.Text
	return s.put(agent.Frame{Kind: agent.PartDone, Part: f.Part})
}

func pause(ctx context.Context, ms int) error {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *script) ask(fields []string) error {
	q := event.QuestionItem{ID: "q1", Text: strings.TrimSpace(fields[0]), FreeText: true}
	for _, o := range fields[1:] {
		q.Options = append(q.Options, event.QuestionOption{Label: strings.TrimSpace(o)})
	}
	r, err := s.t.wait(s, agent.Frame{Kind: agent.Ask, Request: s.t.c.newID("ask"), Questions: []event.QuestionItem{q}})
	if err != nil {
		return err
	}
	answer := "declined"
	if r.Outcome == event.Answered {
		var words []string
		for _, a := range r.Answers {
			words = append(words, a.Selected...)
			if a.Text != "" {
				words = append(words, a.Text)
			}
		}
		if len(words) > 0 {
			answer = strings.Join(words, ", ")
		}
	}
	return s.say(agent.TextDelta, answer)
}

func (s *script) plan(fields []string) error {
	var items []event.PlanItem
	for _, f := range fields {
		if f = strings.TrimSpace(f); f != "" {
			items = append(items, event.PlanItem{ID: fmt.Sprintf("step%d", len(items)+1), Text: f, Status: event.PlanPending})
		}
	}
	show := func() error {
		return s.put(agent.Frame{Kind: agent.Plan, Plan: append([]event.PlanItem(nil), items...)})
	}
	err := show()
	for i := range items {
		for _, status := range []string{event.PlanActive, event.PlanDone} {
			if err != nil {
				return err
			}
			items[i].Status = status
			err = show()
		}
	}
	return err
}
