package contract

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func (s suite) info(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := s.backend(t).Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name == "" || info.Title == "" {
		t.Errorf("no name or title: %+v", info)
	}
	if s.c.Exec != nil && !info.Capabilities.Approvals || s.c.Ask != "" && !info.Capabilities.Questions {
		t.Errorf("promises less than it does: %+v", info.Capabilities)
	}
}

func (s suite) text(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Text)
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "t1", event.TurnComplete)
	if got := spoken(frames); !strings.Contains(got, s.c.TextWant) {
		t.Errorf("said %q, want %q", got, s.c.TextWant)
	}
	open := map[string]bool{}
	for _, f := range frames {
		switch f.Kind {
		case agent.TextDelta:
			if f.Part == "" {
				t.Error("text without a part")
			}
			open[f.Part] = true
		case agent.PartDone:
			delete(open, f.Part)
		}
	}
	if len(open) > 0 {
		t.Errorf("parts left open: %v", open)
	}
}

func (s suite) turns(t *testing.T) {
	k := s.begin(t)
	parts := map[string]string{}
	for _, turn := range []string{"t1", "t2", "t3"} {
		k.prompt(turn, s.c.Text)
		frames := k.until(agent.TurnEnd)
		k.ended(frames, turn, event.TurnComplete)
		for _, f := range frames {
			if f.Part == "" {
				continue
			}
			if in, ok := parts[f.Part]; ok && in != turn {
				t.Errorf("part %s of %s came again in %s", f.Part, in, turn)
			}
			parts[f.Part] = turn
		}
	}
}

func (s suite) two(t *testing.T) {
	b := s.backend(t)
	busy, quick := begin(t, b, agent.Open{}), begin(t, b, agent.Open{})
	busy.prompt("t1", s.c.Long)
	busy.until(agent.TextDelta)
	// Nobody listens to the busy one now: the other must not care.
	quick.prompt("t1", s.c.Text)
	quick.ended(quick.until(agent.TurnEnd), "t1", event.TurnComplete)
	if err := busy.Interrupt(busy.ctx); err != nil {
		t.Fatal(err)
	}
	busy.ended(busy.until(agent.TurnEnd), "t1", event.TurnCancelled)
}

func (s suite) resume(t *testing.T) {
	b := s.backend(t)
	k := begin(t, b, agent.Open{})
	k.prompt("t1", s.c.Text)
	id := ""
	for _, f := range k.until(agent.TurnEnd) {
		if f.Kind == agent.ConversationID {
			id = f.Text
		}
	}
	if id == "" {
		t.Fatal("no conversation id before the end of the first turn")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	again := begin(t, b, agent.Open{Resume: id, Dirs: []string{k.dir}})
	again.prompt("t2", s.c.Text)
	again.ended(again.until(agent.TurnEnd), "t2", event.TurnComplete)
}

func (s suite) big(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Big)
	n := 0
	for f := k.next(); f.Kind != agent.TurnEnd; f = k.next() {
		if f.Kind == agent.TextDelta {
			n += len(f.Text)
		}
	}
	if n != s.c.BigBytes {
		t.Errorf("%d bytes came, want %d", n, s.c.BigBytes)
	}
}

func (s suite) fail(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Fail)
	end := k.ended(k.until(agent.TurnEnd), "t1", event.TurnFailed)
	if end.Error == nil || end.Error.Code == "" || !strings.Contains(end.Error.Message, s.c.FailWant) {
		t.Errorf("error: %+v", end.Error)
	}
	k.prompt("t2", s.c.Fail)
	k.ended(k.until(agent.TurnEnd), "t2", event.TurnFailed)
}

// resumed: the agent goes on with a message whose turn failed, also in another
// process.
func (s suite) resumed(t *testing.T) {
	b := s.backend(t)
	if info, err := b.Info(t.Context()); err != nil || !info.Capabilities.ResumeTurn {
		return
	}
	k := begin(t, b, agent.Open{})
	k.prompt("t1", s.c.Fail)
	id := ""
	said := k.until(agent.TurnEnd)
	k.ended(said, "t1", event.TurnFailed)
	for _, f := range said {
		if f.Kind == agent.ConversationID {
			id = f.Text
		}
	}
	resume := func(k *talk) {
		t.Helper()
		if err := k.Prompt(k.ctx, agent.Prompt{Turn: "t1", Message: "m", Text: s.c.Text, Failures: 1}); err != nil {
			t.Fatal(err)
		}
		frames := k.until(agent.TurnEnd)
		k.ended(frames, "t1", event.TurnComplete)
		if got := spoken(frames); !strings.Contains(got, s.c.TextWant) {
			t.Errorf("said %q, want %q", got, s.c.TextWant)
		}
	}
	resume(k)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	resume(begin(t, b, agent.Open{Resume: id, Dirs: []string{k.dir}}))
}

func (s suite) interruptStream(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Long)
	k.until(agent.TextDelta)
	begin := time.Now()
	if err := k.Interrupt(k.ctx); err != nil {
		t.Fatal(err)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnCancelled)
	k.within(begin, cancelBound, "the end of the turn")
}

func (s suite) interruptIdle(t *testing.T) {
	k := s.begin(t)
	for range 3 {
		if err := k.Interrupt(k.ctx); err != nil {
			t.Fatal(err)
		}
	}
	k.prompt("t1", s.c.Text)
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
	if err := k.Interrupt(k.ctx); err != nil {
		t.Fatal(err)
	}
	k.prompt("t2", s.c.Text)
	k.ended(k.until(agent.TurnEnd), "t2", event.TurnComplete)
}

func (s suite) steer(t *testing.T) {
	k := s.begin(t)
	steerer, ok := k.Conversation.(agent.Steerer)
	if !ok {
		t.Fatal("the conversation cannot be steered")
	}
	k.prompt("t1", strings.Repeat(s.c.Slow+"\n", 12))
	if err := steerer.Steer(k.ctx, agent.Prompt{Message: "m2", Text: s.c.Text}); err != nil {
		t.Fatal(err)
	}
	if f := last(k.until(agent.Steered)); f.Message != "m2" {
		t.Errorf("steered by %q", f.Message)
	}
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "t1", event.TurnComplete)
	if got := spoken(frames); !strings.Contains(got, s.c.TextWant) {
		t.Errorf("said %q after the message", got)
	}
}

func (s suite) unsteered(t *testing.T) {
	k := s.begin(t)
	steerer, ok := k.Conversation.(agent.Steerer)
	if !ok {
		t.Fatal("the conversation cannot be steered")
	}
	k.prompt("t1", s.c.Text)
	k.until(agent.TurnEnd)
	if err := steerer.Steer(k.ctx, agent.Prompt{Message: "m2", Text: s.c.Text}); err != nil {
		t.Fatal(err)
	}
	if f := last(k.until(agent.Unsteered)); f.Message != "m2" {
		t.Errorf("%q came back", f.Message)
	}
}

func (s suite) closed(t *testing.T) {
	k := s.begin(t)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k.closesEventually()
	if err := k.Prompt(k.ctx, agent.Prompt{Turn: "t1", Text: "too late"}); err == nil {
		t.Error("a closed conversation took a prompt")
	}
}
