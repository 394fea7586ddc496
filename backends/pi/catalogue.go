package pi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// entry is a line of a kept conversation.
type entry struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Parent    *string   `json:"parentId"`
	Timestamp time.Time `json:"timestamp"`
	Dir       string    `json:"cwd"`
	Name      string    `json:"name"` // of a session_info
	Message   *message  `json:"message"`
	Summary   string    `json:"summary"`
}

// kept is the file of a conversation: TIME_ID.jsonl.
type kept struct {
	path string
	id   string
	at   time.Time // of the newest change
}

// sessionsDir is where pi keeps conversations.
func sessionsDir() (string, error) {
	if dir := os.Getenv("PI_CODING_AGENT_SESSION_DIR"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("PI_CODING_AGENT_DIR"); dir != "" {
		return filepath.Join(dir, "sessions"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("pi's conversations: %w", err)
	}
	return filepath.Join(home, ".pi", "agent", "sessions"), nil
}

// allKept lists the files, the newest first.
func allKept(ctx context.Context) ([]kept, error) {
	dir, err := sessionsDir()
	if err != nil {
		return nil, err
	}
	var all []kept
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case len(all) >= maxConversations:
			return fs.SkipAll
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		name, ok := strings.CutSuffix(d.Name(), ".jsonl")
		_, id, named := strings.Cut(name, "_")
		if !ok || !named || id == "" {
			return nil
		}
		if info, err := d.Info(); err == nil {
			all = append(all, kept{path, id, info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pi's conversations: %w", err)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) })
	return all, nil
}

// Conversations lists what pi keeps, the newest first.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	all, err := allKept(ctx)
	if err != nil {
		return agent.ConversationPage{}, err
	}
	if q.After != "" {
		i := slices.IndexFunc(all, func(k kept) bool { return k.id == q.After })
		all = all[i+1:] // all of them if it is gone
	}
	limit := q.Limit
	if limit <= 0 || limit > pageConversations {
		limit = pageConversations
	}
	page := agent.ConversationPage{}
	for _, k := range all {
		if ctx.Err() != nil {
			return agent.ConversationPage{}, ctx.Err()
		}
		p, ok := k.head()
		if !ok || q.Dir != "" && p.Dir != q.Dir {
			continue
		}
		if len(page.Conversations) == limit {
			page.Next = page.Conversations[limit-1].ID
			break
		}
		page.Conversations = append(page.Conversations, p)
	}
	return page, nil
}

// head reads the beginning of a conversation for the list. One in which
// nothing was said does not count.
func (k kept) head() (agent.PastConversation, bool) {
	p := agent.PastConversation{ID: k.id, UpdatedAt: k.at}
	named := false
	n := 0
	err := k.each(func(e *entry) error {
		n++
		switch {
		case e.Type == "session":
			p.Dir, p.CreatedAt = e.Dir, e.Timestamp
		case e.Type == "session_info" && e.Name != "":
			p.Title, named = clip(e.Name), true
		case e.Message != nil && e.Message.Role == "user" && p.Title == "":
			p.Title = clip(e.Message.Content.text())
		case e.Message != nil && e.Message.Role == "assistant" && p.Model == "":
			p.Model = modelName(e.Message.Provider, e.Message.Model)
		}
		if n >= headLines || named && p.Model != "" {
			return io.EOF
		}
		return nil
	})
	if p.UpdatedAt.Before(p.CreatedAt) {
		p.UpdatedAt = p.CreatedAt // file systems keep coarser times
	}
	return p, err == nil && p.Title != "" && !p.CreatedAt.IsZero()
}

func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxTitle {
		return strings.TrimSpace(string(r[:maxTitle])) + "…"
	}
	return s
}

// each reads the lines; what is no entry is passed over. f may end it with io.EOF.
func (k kept) each(f func(*entry) error) error {
	file, err := os.Open(k.path)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", k.id, err)
	}
	defer file.Close()
	r := lines.NewReader(bufio.NewReader(io.LimitReader(file, maxKept)), maxLine)
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, lines.ErrTooLong):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("conversation %s: %w", k.id, err)
		}
		var e entry
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if err := f(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// History reads the turns of a conversation.
func (b *Backend) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	all, err := allKept(ctx)
	if err != nil {
		return agent.HistoryPage{}, err
	}
	i := slices.IndexFunc(all, func(k kept) bool { return k.id == q.ID })
	if i < 0 {
		return agent.HistoryPage{}, fmt.Errorf("pi keeps no conversation %q", q.ID)
	}
	skip := 0
	if q.After != "" {
		if skip, err = strconv.Atoi(q.After); err != nil || skip < 0 {
			return agent.HistoryPage{}, fmt.Errorf("%q is no place in a conversation", q.After)
		}
	}
	limit := q.Limit
	if limit <= 0 || limit > pageTurns {
		limit = pageTurns
	}
	branch, err := all[i].branch(ctx)
	if err != nil {
		return agent.HistoryPage{}, err
	}
	turns := past(all[i].id, branch)
	page := agent.HistoryPage{File: all[i].path}
	turns = turns[min(skip, len(turns)):]
	if len(turns) > limit {
		turns, page.Next = turns[:limit], strconv.Itoa(skip+limit)
	}
	page.Turns = turns
	return page, nil
}

// branch is the way from the first entry to the newest: a conversation that
// went back and on from there is a tree.
func (k kept) branch(ctx context.Context) ([]*entry, error) {
	byID := map[string]*entry{}
	var newest *entry
	err := k.each(func(e *entry) error {
		if e.ID != "" && e.Type != "session" {
			byID[e.ID], newest = e, e
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	var way []*entry
	for e := newest; e != nil && len(way) <= len(byID); {
		way = append(way, e)
		if e.Parent == nil {
			break
		}
		e = byID[*e.Parent]
	}
	slices.Reverse(way)
	return way, nil
}

// past makes turns of the entries of a branch.
func past(id string, branch []*entry) (turns []agent.PastTurn) {
	m := newMapper(nil, id)
	var t *agent.PastTurn
	status, failed, place := event.TurnComplete, "", ""
	finish := func() {
		if t == nil {
			return
		}
		end := agent.Frame{Kind: agent.TurnEnd, Status: status, Point: place}
		if status == event.TurnFailed {
			end.Error = wentWrong(failed)
		}
		t.Frames = append(t.Frames, end)
		turns = append(turns, *t)
		t = nil
	}
	for _, e := range branch {
		switch {
		case e.Type == "compaction" && t != nil:
			t.Frames = append(t.Frames, notice("info", "compacted", "the conversation was shortened")...)
		case e.Message == nil:
		case e.Message.Role == "user":
			finish()
			t, status, failed = &agent.PastTurn{At: e.Timestamp, Prompt: e.Message.Content.text()}, event.TurnComplete, ""
			place = e.ID
			for _, p := range e.Message.Content {
				if p.Type == "image" {
					t.Attachments = append(t.Attachments, event.Attachment{Kind: event.AttachImage, MIME: p.MIME, Data: p.Data, Size: int64(len(p.Data))})
				}
			}
		case t == nil:
		case e.Message.Role == "assistant":
			place = e.ID
			t.Frames = append(t.Frames, m.whole(e.Message)...)
			switch failed = e.Message.Error; e.Message.StopReason {
			case "error":
				status = event.TurnFailed
			case "aborted":
				status = event.TurnCancelled
			default:
				status = event.TurnComplete
			}
		case e.Message.Role == "toolResult":
			place = e.ID
			t.Frames = append(t.Frames, m.end(&record{ToolCallID: e.Message.ToolCallID, ToolName: e.Message.ToolName, IsError: e.Message.IsError,
				Result: e.Message.result()})...)
		}
	}
	finish()
	return turns
}

// whole is a message of the model as frames: texts in one delta.
func (m *mapper) whole(msg *message) (out []agent.Frame) {
	m.messages++
	for i, p := range msg.Content {
		switch p.Type {
		case "text":
			out = append(out, agent.Frame{Kind: agent.TextDelta, Part: m.part(i), Text: p.Text}, agent.Frame{Kind: agent.PartDone, Part: m.part(i)})
		case "thinking":
			out = append(out, agent.Frame{Kind: agent.ReasoningDelta, Part: m.part(i), Text: p.Thinking}, agent.Frame{Kind: agent.PartDone, Part: m.part(i)})
		case "toolCall":
			out = append(out, m.begin(p.ID, p.Name, p.Arguments)...)
			if c := m.calls[p.ID]; c != nil {
				tool := c.tool
				out = append(out, agent.Frame{Kind: agent.ToolRun, Call: p.ID, Tool: &tool})
			}
		}
	}
	return append(out, m.ended(msg)...)
}

// result spells a tool's message as the end of its execution is.
func (msg *message) result() json.RawMessage {
	b, err := json.Marshal(object{"content": msg.Content})
	if err != nil {
		return nil
	}
	return b
}
