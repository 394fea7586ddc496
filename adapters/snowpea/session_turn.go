package snowpea

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type sessionParams struct {
	SessionID string `json:"sessionId"`
}

// opened finds a session that is open: one that was closed is resumed first.
func (c *conn) opened(ctx context.Context, name string) (*track, *host.Session, id.ID, error) {
	t, s, chat, err := c.front.lookup(ctx, name)
	if err != nil {
		return nil, nil, id.Nil, err
	}
	if isClosed(s, chat) {
		return nil, nil, id.Nil, fail(codeNotFound, "session %q is closed: resume it", name)
	}
	return t, s, chat, nil
}

func isClosed(s *host.Session, chat id.ID) bool {
	st := s.State()
	if st.Info.Closed {
		return true
	}
	c := st.Chat(chat)
	return chat != st.Default && c != nil && c.Archived
}

func sessionPrompt(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID   string       `json:"sessionId"`
		Text        string       `json:"text"`
		Attachments []attachment `json:"attachments"`
		WhenBusy    *string      `json:"whenBusy"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if blank(p.Text) && len(p.Attachments) == 0 {
		return nil, invalid("text", "there is nothing to say")
	}
	sub := c.subscribe(t, chat)
	sub.hold()
	r.Then(sub.release)
	turn, err := c.promptText(ctx, t, s, chat, p.Text, p.Attachments, deref(p.WhenBusy))
	if err != nil {
		return nil, err
	}
	return turnResult{turn}, nil
}

type turnResult struct {
	TurnID string `json:"turnId"`
}

// promptText runs a line as the command it is, or sends it to the agent.
func (c *conn) promptText(ctx context.Context, t *track, s *host.Session, chat id.ID, text string, files []attachment, busy string) (string, error) {
	if name, args, ok := commandLine(text); ok && !c.front.agentCommand(s, name) {
		return c.runCommand(ctx, t, s, chat, name, args)
	}
	attachments, rich, err := readAttachments(s.State().Info.Dirs, files)
	if err != nil {
		return "", err
	}
	if busy == "" {
		busy = c.front.settings.word("agent", "busy", "steer")
	}
	prompt := host.Prompt{Chat: chat, Text: text, Attachments: attachments, Rich: rich, Busy: host.BusyQueue}
	if busy == "steer" {
		prompt.Busy = host.BusySteer
	}
	return c.say(ctx, t, s, prompt)
}

// refusalsPerTurn is how many refused calls end a turn.
const refusalsPerTurn = 3

// say sends one message to the agent and returns its turn id.
func (c *conn) say(ctx context.Context, t *track, s *host.Session, p host.Prompt) (string, error) {
	p.By, p.Refusals, p.MessageID = c.actor(), refusalsPerTurn, id.New()
	chat := p.Chat
	notices := t.takeNotices(chat)
	if len(notices) > 0 {
		if p.Rich == nil { // keeps the notices out of the message's list
			p.Rich = json.RawMessage(`{"attachments":[]}`)
		}
		p.Attachments = append(p.Attachments, event.Attachment{Kind: event.AttachText, Name: "system", Text: strings.Join(notices, "\n")})
	}
	out, err := s.Prompt(ctx, p)
	if err != nil {
		t.returnNotices(chat, notices)
		return "", err
	}
	return out.Message.String(), nil
}

func sessionSteer(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Text      string `json:"text"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if blank(p.Text) {
		return nil, invalid("text", "there is nothing to say")
	}
	x := s.State().Chat(chat)
	idle := x == nil || x.Active == nil
	prompt := host.Prompt{Chat: chat, Text: p.Text, Busy: host.BusySteer}
	if !idle {
		prompt.Rich = json.RawMessage(`{"steer":true}`)
	}
	if _, err := c.say(ctx, t, s, prompt); err != nil {
		return nil, err
	}
	return struct {
		OK      bool `json:"ok"`
		Started bool `json:"started"`
	}{true, idle}, nil
}

func sessionInterrupt(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[sessionParams](r)
	if err != nil {
		return nil, err
	}
	_, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if _, err := s.Interrupt(ctx, host.Interrupt{Chat: chat, By: c.actor()}); err != nil {
		return nil, err
	}
	return done, nil
}

func sessionNotice(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Text      string `json:"text"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, _, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if blank(p.Text) {
		return nil, invalid("text", "there is nothing to say")
	}
	t.notice(chat, p.Text)
	return done, nil
}

// systemLine is how a note reaches the agent.
func systemLine(text string) string {
	return "[system] " + cut(strings.Join(strings.Fields(text), " "), maxNotice)
}

// notice keeps a line for the agent's next message; too many are dropped.
func (t *track) notice(chat id.ID, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.notices[chat]) < maxNotices {
		t.notices[chat] = append(t.notices[chat], systemLine(text))
	}
}

func (t *track) takeNotices(chat id.ID) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.notices[chat]
	delete(t.notices, chat)
	return out
}

func (t *track) returnNotices(chat id.ID, notices []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(notices) > 0 {
		t.notices[chat] = append(notices, t.notices[chat]...)
	}
}

type continueResult struct {
	Started   bool    `json:"started"`
	TurnID    *string `json:"turnId"`
	Queued    *bool   `json:"queued"`
	Duplicate *bool   `json:"duplicate"`
}

func sessionContinue(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID      string  `json:"sessionId"`
		Note           string  `json:"note"`
		Reason         string  `json:"reason"`
		IdempotencyKey *string `json:"idempotencyKey"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	x := s.State().Chat(chat)
	switch {
	case x == nil || x.Origin.Kind == event.OriginSubagent:
		return nil, invalid("sessionId", "a subagent's session goes on by itself")
	case blank(p.Note):
		return nil, invalid("note", "there is nothing to say")
	case len(p.Reason) > maxNotice || len(deref(p.IdempotencyKey)) > maxNotice:
		return nil, invalid("reason", "is too long")
	case !c.mayDrive(t, chat, s.State().Info.Meta):
		return nil, fail(codeUnauthorized, "only the session's host or origin may do this")
	}
	start, duplicate := t.systemStart(chat, deref(p.IdempotencyKey), x.Active != nil)
	if duplicate {
		return continueResult{Duplicate: ptr(true)}, nil
	}
	if !start {
		t.notice(chat, p.Note)
		return continueResult{Queued: ptr(true)}, nil
	}
	rich, err := json.Marshal(messageRich{Reason: p.Reason})
	if err != nil {
		return nil, err
	}
	turn, err := c.say(ctx, t, s, host.Prompt{Chat: chat, Text: systemLine(p.Note), System: true, Rich: rich})
	if err != nil {
		return nil, err
	}
	return continueResult{Started: true, TurnID: &turn}, nil
}

// systemStart decides whether the system may start a turn now. A key counts
// once; so does the moment, for systemEvery.
func (t *track) systemStart(chat id.ID, key string, running bool) (start, duplicate bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if key != "" {
		if t.keys[key] {
			return false, true
		}
		if len(t.keys) >= maxKeys {
			clear(t.keys)
		}
		t.keys[key] = true
	}
	if running || time.Since(t.system[chat]) < systemEvery {
		return false, false
	}
	t.system[chat] = time.Now()
	return true, false
}

// mayDrive reports whether the connection may steer a session on the system's
// behalf: its origin, a browser session's host, or a surface that is no browser
// for a session that has no browser.
func (c *conn) mayDrive(t *track, chat id.ID, meta map[string]json.RawMessage) bool {
	owner := metaString(meta, metaOwner)
	t.mu.Lock()
	origin := t.origin(chat)
	t.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return origin == c || owner != "" && (owner == c.client || owner == c.surface) || c.kind != kindBrowser && owner == ""
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
