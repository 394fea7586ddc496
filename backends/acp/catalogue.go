package acp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// listed is the agent's list of conversations when it was last read.
type listed struct {
	all   []agent.PastConversation
	at    time.Time
	stamp string // of the agent's files
}

// Conversations lists what the agent keeps. Its program is asked only when its
// files say that there is something new, through a process that runs anyway if
// there is one.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	b.listing.Lock()
	defer b.listing.Unlock()
	from := 0
	if q.After != "" {
		n, err := strconv.Atoi(q.After)
		if err != nil || n < 0 {
			return agent.ConversationPage{}, fmt.Errorf("there is no page after %q", q.After)
		}
		from = n
	}
	if from == 0 || b.list == nil {
		if err := b.refresh(ctx); err != nil {
			return agent.ConversationPage{}, err
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageLimit
	}
	page := agent.ConversationPage{Conversations: []agent.PastConversation{}}
	for i := from; i < len(b.list.all); i++ {
		if one := b.list.all[i]; q.Dir == "" || one.Dir == filepath.Clean(q.Dir) {
			if len(page.Conversations) == limit {
				page.Next = strconv.Itoa(i)
				break
			}
			page.Conversations = append(page.Conversations, one)
		}
	}
	return page, nil
}

// keep takes a list that was read.
func (b *Backend) keep(all []agent.PastConversation, stamp string) {
	b.listing.Lock()
	defer b.listing.Unlock()
	b.list = &listed{all: all, at: time.Now(), stamp: stamp}
}

// refresh reads the list again if it may have changed. The caller holds
// listing.
func (b *Backend) refresh(ctx context.Context) error {
	stamp := b.agent.stamp()
	if b.list != nil {
		age := time.Since(b.list.at)
		if stamp != "" && stamp == b.list.stamp || stamp == "" && age < listAge {
			return nil
		}
	}
	dir, err := b.lookout()
	if err != nil {
		return err
	}
	if l := b.running(); l != nil {
		if !l.lists() {
			return agent.ErrUnsupported
		}
		asked, cancel := context.WithTimeout(ctx, configBound)
		all, err := l.conversations(asked, dir)
		cancel()
		if err == nil {
			b.list = &listed{all: all, at: time.Now(), stamp: stamp}
			return nil
		}
	}
	if b.list != nil && time.Since(b.list.at) < listEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	l, err := b.agent.connect(ctx, dir, nil, &quietListener{})
	if err != nil {
		return err
	}
	if !l.lists() {
		l.stop()
		return agent.ErrUnsupported
	}
	all, err := l.conversations(ctx, dir)
	l.stop()
	if err != nil {
		return err
	}
	// The program itself has touched its files until now.
	b.list = &listed{all: all, at: time.Now(), stamp: b.agent.stamp()}
	return nil
}

// lists tells whether the agent lists conversations that it can load.
func (l *link) lists() bool {
	return l.init.Capabilities.Session.List != nil && l.init.Capabilities.Load
}

// running is a process of a conversation, nil if there is none.
func (b *Backend) running() *link {
	for _, c := range b.open.All() {
		c.mu.Lock()
		l := c.link
		c.mu.Unlock()
		if l == nil {
			continue
		}
		select {
		case <-l.read:
		default:
			return l
		}
	}
	return nil
}

// conversations reads the agent's list, the newest first and without those of the directory in
// which nothing is done.
func (l *link) conversations(ctx context.Context, lookout string) ([]agent.PastConversation, error) {
	all, next := []agent.PastConversation{}, ""
	for range maxPages {
		var a listAnswer
		if err := l.call(ctx, "session/list", listRequest{Cursor: next}, &a); err != nil {
			return nil, fmt.Errorf("list the conversations of %s: %w", l.agent.Title, err)
		}
		for _, s := range a.Sessions {
			one := agent.PastConversation{ID: s.ID, Title: s.Title}
			if s.Dir != "" {
				one.Dir = filepath.Clean(s.Dir)
			}
			one.UpdatedAt, _ = time.Parse(time.RFC3339, s.Updated) // one that is not told stays zero
			if one.Dir != lookout {
				all = append(all, one)
			}
		}
		if next = a.Next; next == "" || len(all) >= keepListed {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b agent.PastConversation) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return all, nil
}

// stamp changes with the files in which the agent keeps its conversations. It
// is "" if there are none where they are looked for.
func (a *Agent) stamp() string {
	if a.Keeps == nil {
		return ""
	}
	n, newest := 0, time.Time{}
	for _, pattern := range a.Keeps() {
		found, _ := filepath.Glob(pattern) // one that cannot be read finds nothing
		for _, path := range found {
			if file, err := os.Stat(path); err == nil {
				n++
				if file.ModTime().After(newest) {
					newest = file.ModTime()
				}
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d files until %s", n, newest.Format(time.RFC3339Nano))
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
	h.m.end(nil, nil)
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
