package codex

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// Conversations lists the threads that the program keeps, also those that were
// begun without the gateway.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	params := map[string]any{"limit": within(q.Limit, listPage, maxListPage), "sortKey": "updated_at"}
	if q.Dir != "" {
		params["cwd"] = q.Dir
	}
	if q.After != "" {
		params["cursor"] = q.After
	}
	var answer struct {
		Data []threadInfo `json:"data"`
		Next string       `json:"nextCursor"`
	}
	if err := b.ask(ctx, func(ctx context.Context, l *link) error { return l.call(ctx, "thread/list", params, &answer) }); err != nil {
		return agent.ConversationPage{}, fmt.Errorf("list codex conversations: %w", err)
	}
	page := agent.ConversationPage{Next: answer.Next}
	for _, t := range answer.Data {
		title := t.Name
		if title == "" {
			title = firstLine(t.Preview, "untitled")
		}
		page.Conversations = append(page.Conversations, agent.PastConversation{ID: t.ID, Dir: t.Cwd, Title: title, Model: t.Model,
			CreatedAt: seconds(t.CreatedAt), UpdatedAt: seconds(t.UpdatedAt)})
	}
	return page, nil
}

// History reads the turns of a thread.
func (b *Backend) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	params := map[string]any{"threadId": q.ID, "limit": within(q.Limit, historyPage, maxHistoryPage), "sortDirection": "asc", "itemsView": "full"}
	if q.After != "" {
		params["cursor"] = q.After
	}
	var answer struct {
		Data []turnInfo `json:"data"`
		Next string     `json:"nextCursor"`
	}
	if err := b.ask(ctx, func(ctx context.Context, l *link) error { return l.call(ctx, "thread/turns/list", params, &answer) }); err != nil {
		return agent.HistoryPage{}, fmt.Errorf("read codex conversation %s: %w", q.ID, err)
	}
	page := agent.HistoryPage{Next: answer.Next}
	for i := range answer.Data {
		page.Turns = append(page.Turns, b.past(q.ID, &answer.Data[i]))
	}
	return page, nil
}

// past is a turn of the thread id as it would have been told.
func (b *Backend) past(id string, t *turnInfo) agent.PastTurn {
	out := agent.PastTurn{At: seconds(t.StartedAt)}
	m := newMapper(b.log, nil)
	m.open(id, false)
	m.mine().turn = t.ID
	for i := range t.Items {
		it := &t.Items[i]
		if it.Type == "userMessage" {
			text, files := said(it.Content)
			out.Prompt = strings.TrimPrefix(out.Prompt+"\n"+text, "\n")
			out.Attachments = append(out.Attachments, files...)
			continue
		}
		for _, f := range m.notification("item/completed", &note{ThreadID: id, TurnID: t.ID, Item: it}) {
			if f.Kind != agent.ChildStart && len(out.Frames) < maxHistoryFrames {
				out.Frames = append(out.Frames, f)
			}
		}
	}
	end := agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete, Point: t.ID}
	switch t.Status {
	case "failed":
		end.Status, end.Error = event.TurnFailed, wentWrong(t.Error)
	case "interrupted":
		end.Status = event.TurnCancelled
	case "inProgress":
		end.Status, end.Point = event.TurnCancelled, ""
	}
	out.Frames = append(out.Frames, end)
	return out
}

// said splits a message of a person into its text and what was attached.
func said(pieces []content) (string, []event.Attachment) {
	var texts []string
	var files []event.Attachment
	for _, c := range pieces {
		switch c.Type {
		case "text":
			texts = append(texts, c.Text)
		case "localImage":
			files = append(files, event.Attachment{Kind: event.AttachImage, Name: filepath.Base(c.Path), Path: c.Path})
		case "mention":
			files = append(files, event.Attachment{Kind: event.AttachFile, Name: c.Name, Path: c.Path})
		case "image":
			_, encoded, ok := strings.Cut(c.URL, ";base64,")
			data, err := base64.StdEncoding.DecodeString(encoded)
			if ok && err == nil {
				files = append(files, event.Attachment{Kind: event.AttachImage, MIME: http.DetectContentType(data), Data: data, Size: int64(len(data))})
			}
		}
	}
	return strings.Join(texts, "\n"), files
}

func seconds(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

func within(n, usual, most int) int {
	if n <= 0 {
		return usual
	}
	return min(n, most)
}
