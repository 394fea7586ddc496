package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// identified runs a turn of text and returns the conversation's id.
func (s suite) identified(k *talk, turn string) string {
	k.t.Helper()
	k.prompt(turn, s.c.Text)
	frames := k.until(agent.TurnEnd)
	k.ended(frames, turn, event.TurnComplete)
	id := ""
	for _, f := range frames {
		if f.Kind == agent.ConversationID {
			id = f.Text
		}
	}
	if id == "" {
		k.t.Fatalf("no conversation id before the end of %s", turn)
	}
	return id
}

func (s suite) fork(t *testing.T) {
	b := s.backend(t)
	info, err := b.Info(t.Context())
	if err != nil || !info.Capabilities.Fork {
		t.Fatalf("%v, promises %+v", err, info.Capabilities)
	}
	k := begin(t, b, agent.Open{})
	id := s.identified(k, "t1")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	fork := begin(t, b, agent.Open{Resume: id, Fork: true, Dirs: []string{k.dir}})
	if forked := s.identified(fork, "t2"); forked == id {
		t.Errorf("the fork has the id of the conversation, %s", id)
	}
	again := begin(t, b, agent.Open{Resume: id, Dirs: []string{k.dir}})
	if resumed := s.identified(again, "t3"); resumed != id {
		t.Errorf("the conversation %s resumed as %s", id, resumed)
	}
}

// forkCancelled goes back to a turn that was stopped in the middle.
func (s suite) forkCancelled(t *testing.T) {
	b := s.backend(t)
	k := begin(t, b, agent.Open{})
	id := ""
	k.prompt("t1", s.c.Text)
	for _, f := range k.until(agent.TurnEnd) {
		if f.Kind == agent.ConversationID {
			id = f.Text
		}
	}
	k.prompt("t2", s.c.Long)
	k.until(agent.TextDelta)
	if err := k.Interrupt(k.ctx); err != nil {
		t.Fatal(err)
	}
	end := k.ended(k.until(agent.TurnEnd), "t2", event.TurnCancelled)
	if end.Point == "" {
		t.Fatal("the cancelled turn ended nowhere")
	}
	k.prompt("t3", s.c.Text)
	k.ended(k.until(agent.TurnEnd), "t3", event.TurnComplete)
	fork := begin(t, b, agent.Open{Resume: id, Fork: true, ForkAt: end.Point, Dirs: []string{k.dir}})
	fork.prompt("t4", s.c.Text)
	fork.ended(fork.until(agent.TurnEnd), "t4", event.TurnComplete)
}

// forkAt goes back to a turn, and to one of what came of that.
func (s suite) forkAt(t *testing.T) {
	b := s.backend(t)
	info, err := b.Info(t.Context())
	if err != nil || !info.Capabilities.ForkAt {
		t.Fatalf("%v, promises %+v", err, info.Capabilities)
	}
	k := begin(t, b, agent.Open{})
	id, points := "", map[string]string{}
	play := func(k *talk, turn string) {
		t.Helper()
		k.prompt(turn, s.c.Text)
		frames := k.until(agent.TurnEnd)
		points[turn] = k.ended(frames, turn, event.TurnComplete).Point
		for _, f := range frames {
			if f.Kind == agent.ConversationID {
				id = f.Text
			}
		}
		if points[turn] == "" {
			t.Fatalf("%s ended nowhere", turn)
		}
	}
	play(k, "t1")
	play(k, "t2")
	play(k, "t3")
	first := id
	fork := begin(t, b, agent.Open{Resume: first, Fork: true, ForkAt: points["t2"], Dirs: []string{k.dir}})
	play(fork, "t4")
	forked := id
	again := begin(t, b, agent.Open{Resume: forked, Fork: true, ForkAt: points["t4"], Dirs: []string{k.dir}})
	play(again, "t5")
	if first == forked || forked == id || first == id {
		t.Errorf("the conversations are %s, %s and %s", first, forked, id)
	}
	if !info.Capabilities.Catalogue {
		return
	}
	if c, err := b.Open(again.ctx, agent.Open{Session: "s", Chat: "c", Resume: first, Fork: true, ForkAt: "no-such-place", Dirs: []string{k.dir}}); err == nil {
		_ = c.Close()
		t.Error("a fork begins at a place that there is not")
	}
	for conversation, turns := range map[string]int{first: 3, forked: 3, id: 4} {
		h, err := b.(agent.Cataloger).History(again.ctx, agent.HistoryQuery{ID: conversation, Dir: k.dir})
		if err != nil || len(h.Turns) != turns {
			t.Errorf("%s has %d turns, %v; want %d", conversation, len(h.Turns), err, turns)
		}
	}
}

func (s suite) past(t *testing.T) (agent.Cataloger, string, context.Context) {
	t.Helper()
	b, dir := s.c.Past(t)
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	info, err := b.Info(ctx)
	if err != nil || !info.Capabilities.Catalogue {
		t.Fatalf("%v, promises %+v", err, info.Capabilities)
	}
	c, ok := b.(agent.Cataloger)
	if !ok {
		t.Fatal("the backend is no cataloger")
	}
	return c, dir, ctx
}

// newest reads the list of dir in pages of two.
func newest(t *testing.T, ctx context.Context, c agent.Cataloger, dir string) (all []agent.PastConversation) {
	t.Helper()
	q := agent.ConversationQuery{Dir: dir, Limit: 2}
	for pages := 0; ; pages++ {
		page, err := c.Conversations(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Conversations) > 2 || pages > 1000 {
			t.Fatalf("page %d has %d conversations", pages, len(page.Conversations))
		}
		all = append(all, page.Conversations...)
		if page.Next == "" {
			return all
		}
		q.After = page.Next
	}
}

func (s suite) listed(t *testing.T) {
	c, dir, ctx := s.past(t)
	all := newest(t, ctx, c, dir)
	if len(all) < 3 {
		t.Fatalf("%d conversations: %+v", len(all), all)
	}
	seen := map[string]bool{}
	for i, p := range all {
		if p.ID == "" || seen[p.ID] || p.Dir != dir || p.Title == "" || p.CreatedAt.IsZero() || p.UpdatedAt.Before(p.CreatedAt) {
			t.Errorf("conversation %d: %+v", i, p)
		}
		seen[p.ID] = true
		if i > 0 && p.UpdatedAt.After(all[i-1].UpdatedAt) {
			t.Errorf("conversation %d is newer than the one before it", i)
		}
	}
	if none, err := c.Conversations(ctx, agent.ConversationQuery{Dir: t.TempDir()}); err != nil || len(none.Conversations) > 0 {
		t.Errorf("of another directory: %+v, %v", none, err)
	}
}

func (s suite) history(t *testing.T) {
	c, dir, ctx := s.past(t)
	p := newest(t, ctx, c, dir)[0]
	whole, err := c.History(ctx, agent.HistoryQuery{ID: p.ID, Dir: dir})
	if err != nil || len(whole.Turns) < 3 {
		t.Fatalf("%d turns, %v", len(whole.Turns), err)
	}
	if f := whole.File; f != "" {
		if info, err := os.Stat(f); err != nil || !filepath.IsAbs(f) || !info.Mode().IsRegular() {
			t.Errorf("the conversation is said to be in %q: %v", f, err)
		}
	}
	for i, turn := range whole.Turns {
		end := agent.Frame{}
		if n := len(turn.Frames); n > 0 {
			end = turn.Frames[n-1]
		}
		if turn.Prompt == "" || turn.At.IsZero() || end.Kind != agent.TurnEnd {
			t.Errorf("turn %d: %+v", i, turn)
		}
		for _, f := range turn.Frames {
			if f.Request != "" {
				t.Errorf("turn %d has a request: %+v", i, f)
			}
		}
	}
	q := agent.HistoryQuery{ID: p.ID, Dir: dir, Limit: 1}
	for i := range whole.Turns {
		page, err := c.History(ctx, q)
		if err != nil || len(page.Turns) != 1 || page.Turns[0].Prompt != whole.Turns[i].Prompt {
			t.Fatalf("page %d: %+v, %v", i, page, err)
		}
		if (page.Next == "") != (i == len(whole.Turns)-1 && whole.Next == "") {
			t.Fatalf("page %d of %d says that %q is next", i, len(whole.Turns), page.Next)
		}
		q.After = page.Next
	}
	if got, err := c.History(ctx, agent.HistoryQuery{ID: "no-such-conversation", Dir: dir}); err == nil {
		t.Errorf("a conversation that is none has %+v", got)
	}
}

func (s suite) missing(t *testing.T) {
	b := s.c.Missing(t)
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check := func(what string, err error) {
		var p *agent.Problem
		if !errors.As(err, &p) || p.Code != agent.ProblemMissing || p.Message == "" || p.Fix == "" {
			t.Errorf("%s: %#v", what, err)
		}
	}
	_, err := b.Info(ctx)
	check("info", err)
	_, err = b.Open(ctx, agent.Open{Session: "s", Chat: "c", Dirs: []string{t.TempDir()}})
	check("open", err)
}
