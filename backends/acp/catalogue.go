package acp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// Conversations lists what the agent keeps. It starts the agent's program,
// which takes a while: callers keep the answer.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	dir := q.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	l, err := b.agent.connect(ctx, dir, nil, &quietListener{})
	if err != nil {
		return agent.ConversationPage{}, err
	}
	defer l.stop()
	if l.init.Capabilities.Session.List == nil || !l.init.Capabilities.Load {
		return agent.ConversationPage{}, agent.ErrUnsupported
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageLimit
	}
	page := agent.ConversationPage{Conversations: []agent.PastConversation{}, Next: q.After}
	// A page is some whole pages of the agent's.
	for range maxPages {
		var a listAnswer
		if err := l.call(ctx, "session/list", listRequest{Dir: q.Dir, Cursor: page.Next}, &a); err != nil {
			return agent.ConversationPage{}, fmt.Errorf("list the conversations of %s: %w", b.agent.Title, err)
		}
		for _, s := range a.Sessions {
			if q.Dir != "" && s.Dir != "" && filepath.Clean(s.Dir) != filepath.Clean(q.Dir) {
				continue
			}
			at, _ := time.Parse(time.RFC3339, s.Updated) // one that is not told stays zero
			page.Conversations = append(page.Conversations, agent.PastConversation{ID: s.ID, Dir: s.Dir, Title: s.Title, UpdatedAt: at})
		}
		page.Next = a.Next
		if page.Next == "" || len(page.Conversations) >= limit {
			break
		}
	}
	return page, nil
}

// kept is the history that was read last, for the pages that follow.
type kept struct {
	id    string
	turns []agent.PastTurn
}

// History lets the agent load a conversation and takes down what it replays.
func (b *Backend) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if q.After == "" || b.kept == nil || b.kept.id != q.ID {
		turns, err := b.replay(ctx, q)
		if err != nil {
			return agent.HistoryPage{}, err
		}
		b.kept = &kept{q.ID, turns}
	}
	from := 0
	if q.After != "" {
		n, err := strconv.Atoi(q.After)
		if err != nil || n < 0 || n > len(b.kept.turns) {
			return agent.HistoryPage{}, fmt.Errorf("there is no page after %q", q.After)
		}
		from = n
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageLimit
	}
	to := min(from+limit, len(b.kept.turns))
	page := agent.HistoryPage{Turns: b.kept.turns[from:to]}
	if to < len(b.kept.turns) {
		page.Next = strconv.Itoa(to)
	} else {
		b.kept = nil
	}
	return page, nil
}

func (b *Backend) replay(ctx context.Context, q agent.HistoryQuery) ([]agent.PastTurn, error) {
	ctx, cancel := context.WithTimeout(ctx, shakeBound)
	defer cancel()
	if q.Dir == "" {
		return nil, fmt.Errorf("%s reads a conversation only in its working directory", b.agent.Title)
	}
	h := &historian{m: newMapper(&b.agent, []string{q.Dir})}
	l, err := b.agent.connect(ctx, q.Dir, nil, h)
	if err != nil {
		return nil, err
	}
	// The reader ends with stop: then the historian has it all.
	l.replays = true
	err = l.open(ctx, &agent.Open{Dirs: []string{q.Dir}}, q.ID)
	l.stop()
	if err != nil {
		return nil, err
	}
	h.finish()
	return h.turns, nil
}

// historian is the listener of a conversation that is only read.
type historian struct {
	m      *mapper
	turns  []agent.PastTurn
	open   bool
	asking bool // the last update was a piece of the prompt
}

func (h *historian) update(_ *link, u *update) {
	switch u.Kind {
	case "user_message_chunk":
		var b block
		if decode(u.Content, &b) != nil {
			return
		}
		if !h.asking {
			h.finish()
			h.open, h.asking = true, true
			h.turns = append(h.turns, agent.PastTurn{})
			if len(h.turns) > keepTurns {
				h.turns = h.turns[1:]
			}
			h.m.begin()
		}
		t := &h.turns[len(h.turns)-1]
		if b.Type == "image" {
			t.Attachments = append(t.Attachments, event.Attachment{Kind: event.AttachImage, MIME: b.MIME, Data: b.Data, Size: int64(len(b.Data))})
			return
		}
		t.Prompt += blockText(&b)
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan":
		h.asking = false
		h.m.update(u)
		h.collect()
	}
}

// collect adds the mapper's frames to the turn; the pieces of a text become
// one.
func (h *historian) collect() {
	frames := h.m.take()
	if !h.open {
		return
	}
	t := &h.turns[len(h.turns)-1]
	for _, f := range frames {
		if n := len(t.Frames) - 1; n >= 0 && f.Part != "" && f.Kind == t.Frames[n].Kind && f.Part == t.Frames[n].Part && f.Kind != agent.PartDone {
			t.Frames[n].Text += f.Text
			continue
		}
		t.Frames = append(t.Frames, f)
	}
}

// finish ends the open turn.
func (h *historian) finish() {
	if !h.open {
		return
	}
	h.m.end(nil, "")
	h.collect()
	t := &h.turns[len(h.turns)-1]
	t.Prompt = strings.TrimSpace(t.Prompt)
	t.Frames = append(t.Frames, agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete})
	h.open = false
}

func (h *historian) request(l *link, m *message) {
	if len(m.ID) > 0 {
		l.refuse(m.ID, codeNoMethod, "there is no "+m.Method)
	}
}

func (h *historian) tooLong(*lines.TooLongError) {}
