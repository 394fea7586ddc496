package demo

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
)

// KeepVar names the environment variable of a plugin process with the
// Backend's Keep.
const KeepVar = "POLYHOST_DEMO_KEEP"

const keptSuffix = ".jsonl"

// head is the first line of a kept conversation; each turn is a line after it.
type head struct {
	ID        string    `json:"id"`
	Dir       string    `json:"dir"`
	Title     string    `json:"title"`
	Model     string    `json:"model,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// note keeps what a turn says, texts whole and requests left out.
func (t *turn) note(frames []agent.Frame) {
	if t.c.backend.Keep == "" {
		return
	}
	for _, f := range frames {
		switch f.Kind {
		case agent.Permission, agent.Ask, agent.ClientCall, agent.PartDone, agent.Steered:
			continue
		}
		n := len(t.past.Frames)
		if n > 0 {
			if last := &t.past.Frames[n-1]; f.Part != "" && last.Part == f.Part && last.Kind == f.Kind {
				if t.noted += len(f.Text); t.noted <= maxKeptText {
					last.Text += f.Text
				}
				continue
			}
		}
		if t.noted += len(f.Text); f.Kind != agent.TurnEnd && (n >= maxKeptFrames || t.noted > maxKeptText) {
			continue
		}
		t.past.Frames = append(t.past.Frames, f)
	}
}

// keep writes a finished turn to the conversation's file.
func (c *conversation) keep(p agent.PastTurn) error {
	if c.backend.Keep == "" {
		return nil
	}
	path, err := c.backend.keptPath(c.id)
	if err != nil {
		return err
	}
	var lines []any
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		title, _, _ := strings.Cut(strings.TrimSpace(p.Prompt), "\n")
		lines = append(lines, head{ID: c.id, Dir: c.dirs[0], Title: title, Model: c.settings.Model, CreatedAt: p.At})
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, v := range append(lines, p) {
		if _, err = f.Write(append(marshal(v), '\n')); err != nil {
			break
		}
	}
	ended := time.Now() // finer than what the file system notes by itself
	return errors.Join(err, f.Close(), os.Chtimes(path, ended, ended))
}

// keptPath is the file of a conversation. The id may come from a client.
func (b *Backend) keptPath(id string) (string, error) {
	if id == "" || len(id) > 200 || strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "", fmt.Errorf("%.80q is no conversation of the demo agent", id)
	}
	return filepath.Join(b.Keep, id+keptSuffix), nil
}

// copyKept gives a fork the turns of the conversation it begins with, as far as
// the one that ended at a point; "" is all of them.
func (b *Backend) copyKept(from, to, at string) error {
	if b.Keep == "" {
		return nil
	}
	var lines []any
	found := at == ""
	h, err := b.readKept(from, func(p agent.PastTurn) {
		if at == "" || !found {
			lines = append(lines, p)
		}
		if n := len(p.Frames); n > 0 && p.Frames[n-1].Point == at {
			found = true
		}
	})
	if err == nil && !found {
		err = errors.New("it has no such place")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no turn of it has ended
	}
	if err != nil {
		return fmt.Errorf("fork %s: %w", from, err)
	}
	path, err := b.keptPath(to)
	if err != nil {
		return err
	}
	h.ID, h.CreatedAt = to, time.Now().UTC()
	var file []byte
	for _, v := range append([]any{h}, lines...) {
		file = append(append(file, marshal(v)...), '\n')
	}
	return os.WriteFile(path, file, 0o600)
}

// readKept reads a conversation's file, giving each turn to turn, if any.
func (b *Backend) readKept(id string, turn func(agent.PastTurn)) (head, error) {
	var h head
	path, err := b.keptPath(id)
	if err != nil {
		return h, err
	}
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxKeptLine)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
				return h, fmt.Errorf("%s: %w", path, err)
			}
			if turn == nil {
				return h, nil
			}
			continue
		}
		var p agent.PastTurn
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return h, fmt.Errorf("%s, turn %d: %w", path, n, err)
		}
		turn(p)
	}
	if h.ID == "" {
		return h, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	return h, lines.Err()
}

// Conversations lists what is kept, the newest first.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	var page agent.ConversationPage
	if b.Keep == "" {
		return page, agent.ErrUnsupported
	}
	entries, err := os.ReadDir(b.Keep)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return page, err
	}
	var all []agent.PastConversation
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), keptSuffix)
		if !ok || ctx.Err() != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		h, err := b.readKept(id, nil)
		if err != nil || q.Dir != "" && q.Dir != h.Dir {
			continue
		}
		all = append(all, agent.PastConversation{ID: id, Dir: h.Dir, Title: h.Title, Model: h.Model,
			CreatedAt: h.CreatedAt, UpdatedAt: info.ModTime().UTC()})
	}
	slices.SortFunc(all, func(a, b agent.PastConversation) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.ID, a.ID))
	})
	from, to, next, err := cut(q.After, len(all), q.Limit, pageConversations)
	if err != nil {
		return page, err
	}
	page.Conversations, page.Next = all[from:to], next
	return page, ctx.Err()
}

// History reads the kept turns of a conversation.
func (b *Backend) History(_ context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	var page agent.HistoryPage
	if b.Keep == "" {
		return page, agent.ErrUnsupported
	}
	var all []agent.PastTurn
	if _, err := b.readKept(q.ID, func(p agent.PastTurn) { all = append(all, p) }); err != nil {
		return page, err
	}
	from, to, next, err := cut(q.After, len(all), q.Limit, pageTurns)
	if err != nil {
		return page, err
	}
	page.Turns, page.Next = all[from:to], next
	page.File, err = b.keptPath(q.ID)
	return page, err
}

// cut is a page of n things: it begins at the number that after is.
func cut(after string, n, limit, most int) (from, to int, next string, err error) {
	if after != "" {
		if from, err = strconv.Atoi(after); err != nil || from < 0 || from > n {
			return 0, 0, "", fmt.Errorf("%.80q is no place in a list of %d", after, n)
		}
	}
	if limit <= 0 || limit > most {
		limit = most
	}
	if to = min(from+limit, n); to < n {
		next = strconv.Itoa(to)
	}
	return from, to, next, nil
}
