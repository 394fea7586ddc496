package zidane

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// The events of a transcript. A finished turn always gives the same ones.

type promptEvent struct {
	Kind   string `json:"kind"` // user-prompt
	Text   string `json:"text"`
	TurnID string `json:"turnId"`
	At     int64  `json:"at,omitempty"`
	// Attachments are named; their bytes stay with the server.
	Attachments []attachmentObject `json:"attachments,omitempty"`
}

type attachmentObject struct {
	Name string `json:"name,omitempty"`
	MIME string `json:"mime,omitempty"`
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"`
}

type textEvent struct {
	Kind      string `json:"kind"` // markdown, thinking
	Text      string `json:"text"`
	Streaming bool   `json:"streaming"`
	TurnID    string `json:"turnId"`
}

type toolCall struct {
	Kind   string          `json:"kind"` // tool-call
	CallID string          `json:"callId"`
	Name   string          `json:"name"`
	Title  string          `json:"title,omitempty"`
	Input  json.RawMessage `json:"input"`
	Edits  []editObject    `json:"edits,omitempty"`
	TurnID string          `json:"turnId"`
}

type toolResult struct {
	Kind     string       `json:"kind"` // tool-result
	CallID   string       `json:"callId"`
	OK       bool         `json:"ok"`
	Output   string       `json:"output"`
	Status   string       `json:"status"` // done, failed, denied, cancelled
	ExitCode *int         `json:"exitCode,omitempty"`
	Edits    []editObject `json:"edits,omitempty"`
	// SubSessionID is the session of the subagent that the call ran.
	SubSessionID string `json:"subSessionId,omitempty"`
	TurnID       string `json:"turnId"`
}

type noticeEvent struct {
	Kind   string `json:"kind"` // notice, error
	Text   string `json:"text"`
	Level  string `json:"level,omitempty"`
	Code   string `json:"code,omitempty"`
	TurnID string `json:"turnId"`
}

type imageEvent struct {
	Kind   string `json:"kind"` // image
	Name   string `json:"name,omitempty"`
	MIME   string `json:"mime,omitempty"`
	Path   string `json:"path,omitempty"`
	Data   []byte `json:"data,omitempty"` // base64
	TurnID string `json:"turnId"`
}

type summaryEvent struct {
	Kind       string     `json:"kind"` // run-summary
	Text       string     `json:"text"`
	RunSummary runSummary `json:"runSummary"`
	TurnID     string     `json:"turnId"`
}

type runSummary struct {
	ModelID         string `json:"modelId"`
	DurationMs      int64  `json:"durationMs"`
	Turns           int    `json:"turns"`
	TokensIn        int64  `json:"tokensIn"`
	TokensOut       int64  `json:"tokensOut"`
	TokensPerSecond int64  `json:"tokensPerSecond"`
}

func promptOf(m *event.Message) promptEvent {
	e := promptEvent{Kind: "user-prompt", Text: m.Text, TurnID: m.ID.String(), At: m.At.UnixMilli()}
	for _, a := range m.Attachments {
		e.Attachments = append(e.Attachments, attachmentObject{a.Name, a.MIME, a.Path, a.Size})
	}
	return e
}

func toolCallEvent(turn id.ID, p *event.Part) toolCall {
	input := p.Tool.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return toolCall{Kind: "tool-call", CallID: p.Tool.Call, Name: p.Tool.Name, Title: p.Tool.Title, Input: input,
		Edits: editsOf(p.Tool.Edits), TurnID: turn.String()}
}

func toolResultEvent(turn id.ID, p *event.Part) toolResult {
	t := p.Tool
	r := toolResult{Kind: "tool-result", CallID: t.Call, OK: t.Status == event.CallDone, Output: t.Output.String(),
		Status: string(t.Status), ExitCode: t.ExitCode, Edits: editsOf(t.Edits), SubSessionID: t.Child.String(), TurnID: turn.String()}
	if r.Output == "" {
		r.Output = t.Error
	}
	return r
}

func errorEvent(turn id.ID, e *event.Error) noticeEvent {
	return noticeEvent{Kind: "error", Text: e.Message, Code: e.Code, TurnID: turn.String()}
}

// wholeEvent is the event of a part that comes whole: a notice or an image.
func wholeEvent(turn id.ID, p *event.Part) any {
	switch {
	case p.Notice != nil && p.Notice.Ended != nil:
		return errorEvent(turn, &event.Error{Code: p.Notice.Code, Message: p.Notice.Text})
	case p.Notice != nil:
		return noticeEvent{Kind: "notice", Text: p.Notice.Text, Level: p.Notice.Level, Code: p.Notice.Code, TurnID: turn.String()}
	case p.Image != nil:
		return imageEvent{Kind: "image", Name: p.Image.Name, MIME: p.Image.MIME, Path: p.Image.Path, Data: p.Image.Data, TurnID: turn.String()}
	}
	return nil
}

// eventsOf are the events of a turn. A running one gives what there is so far.
func (f *Front) eventsOf(info *event.SessionInfo, t *state.Turn) []any {
	var out []any
	if !t.Message.System || t.Message.Text != "" {
		out = append(out, promptOf(&t.Message))
	}
	turn := t.ID.String()
	for _, p := range t.Parts {
		switch {
		case p.Kind == event.PartText && p.Text.Len() > 0:
			out = append(out, textEvent{"markdown", p.Text.String(), !p.Ended(), turn})
		case p.Kind == event.PartReasoning && p.Text.Len() > 0:
			out = append(out, textEvent{"thinking", p.Text.String(), !p.Ended(), turn})
		case p.Tool != nil && p.Tool.Status != event.CallStreaming:
			out = append(out, toolCallEvent(t.ID, p))
			if p.Ended() {
				out = append(out, toolResultEvent(t.ID, p))
			}
		case p.Message != nil:
			out = append(out, promptOf(p.Message))
		default:
			if e := wholeEvent(t.ID, p); e != nil {
				out = append(out, e)
			}
		}
	}
	if t.Error != nil {
		out = append(out, errorEvent(t.ID, t.Error))
	}
	if t.Status != event.TurnRunning {
		out = append(out, f.summaryOf(info, t))
	}
	return out
}

func (f *Front) summaryOf(info *event.SessionInfo, t *state.Turn) summaryEvent {
	s := runSummary{ModelID: t.Usage.Model, DurationMs: t.Duration.Milliseconds(), TokensIn: t.Usage.Input, TokensOut: t.Usage.Output}
	if s.ModelID == "" {
		s.ModelID = f.modelOf(info, &t.Message)
	}
	prompts, loops, inTools := 1, 1, false
	var streamed time.Duration
	for _, p := range t.Parts {
		switch p.Kind {
		case event.PartMessage:
			prompts++
		case event.PartTool:
			inTools = true
		case event.PartText, event.PartReasoning:
			if inTools {
				loops, inTools = loops+1, false
			}
			if p.Ended() {
				streamed += p.EndedAt.Sub(p.StartedAt)
			}
		}
	}
	s.Turns = prompts + loops
	if s.TokensOut > 0 {
		s.TokensPerSecond = int64(math.Round(float64(s.TokensOut) / max(streamed, time.Millisecond).Seconds()))
	}
	text := fmt.Sprintf("%s · %s · ↻%d · ↑%d ↓%d", f.modelName(s.ModelID), shortDuration(t.Duration), loops, s.TokensIn, s.TokensOut)
	if s.TokensPerSecond > 0 {
		text += fmt.Sprintf(" · %d tk/s", s.TokensPerSecond)
	}
	return summaryEvent{Kind: "run-summary", Text: text, RunSummary: s, TurnID: t.ID.String()}
}

// shortDuration is "<1s", "12s" or "3m05s".
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "<1s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// turnCounts keeps how many events each finished turn of a transcript has, so
// that a page knows how many come before it.
type turnCounts struct {
	mu    sync.Mutex
	chats map[id.ID]counted // by wire id
}

// counted are the sums of the events up to and with each turn, as long as no
// turns are taken away or resumed.
type counted struct {
	cuts int // state.Chat.Cuts
	sums []uint32
}

func newTurnCounts() *turnCounts { return &turnCounts{chats: map[id.ID]counted{}} }

func (t *turnCounts) forget(wire id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.chats, wire)
}

// of are the sums that are known of a chat.
func (t *turnCounts) of(wire id.ID, cuts int) []uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.chats[wire]; c.cuts == cuts {
		return c.sums
	}
	return nil
}

func (t *turnCounts) keep(wire id.ID, c counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.chats[wire]; old.cuts > c.cuts || old.cuts == c.cuts && len(old.sums) >= len(c.sums) {
		return
	}
	if len(t.chats) >= countedChats {
		clear(t.chats)
	}
	t.chats[wire] = c
}

// cuts is how often turns of a chat were taken away or resumed.
func cuts(s *host.Session, chat id.ID) int {
	if c := s.State().Chat(chat); c != nil {
		return c.Cuts
	}
	return 0
}

// before counts the events of the finished turns before number n.
func (f *Front) before(ctx context.Context, s *host.Session, wire, chat id.ID, n int) (int, error) {
	now := cuts(s, chat)
	sums := f.counts.of(wire, now)
	info := &s.State().Info
	for len(sums) < n {
		upto := min(n, len(sums)+readTurns)
		turns, err := s.Turns(ctx, chat, upto, upto-len(sums))
		if err != nil {
			return 0, err
		}
		if len(turns) != upto-len(sums) {
			return 0, failed("The transcript has %d turns fewer than it should.", upto-len(sums)-len(turns))
		}
		next := make([]uint32, len(sums), upto)
		copy(next, sums)
		sum := uint32(0)
		if len(next) > 0 {
			sum = next[len(next)-1]
		}
		for _, t := range turns {
			sum += uint32(len(f.eventsOf(info, t)))
			next = append(next, sum)
		}
		sums = next
	}
	if cuts(s, chat) == now { // else some may be of turns from before
		f.counts.keep(wire, counted{now, sums})
	}
	if n == 0 {
		return 0, nil
	}
	return int(sums[n-1]), nil
}

type loadParams struct {
	ref
	Before *int `json:"before"`
	Limit  *int `json:"limit"`
}

// pageObject is a part of a transcript.
type pageObject struct {
	Events []any `json:"events"`
	// Exact: start was counted, not estimated.
	Exact bool `json:"exact"`
	// Start is how many events of the transcript come before the page.
	Start int `json:"start"`
	// Cursor is the next before; none on the page with the first turn.
	Cursor *int `json:"cursor,omitempty"`
	// Seq is the $seq of the newest signal that the page covers, on the page
	// with the newest turn.
	Seq uint64 `json:"seq,omitempty"`
}

// pageSize checks a limit.
func pageSize(limit *int) (int, error) {
	if limit == nil {
		return pageTurns, nil
	}
	if *limit < 1 {
		return 0, badField("limit", "want 1 or more")
	}
	return min(*limit, maxPageTurns), nil
}

// sessionsLoadEvents gives the whole transcript as an array, or a page of it.
// A turn has all its events on one page, so a call comes with its result.
func sessionsLoadEvents(ctx context.Context, c *call, p loadParams) (any, error) {
	limit, err := pageSize(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.Before != nil && *p.Before < 0 {
		return nil, badField("before", "want 0 or more")
	}
	s, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	end := chat.Count // the running turn is number Count
	if chat.Active != nil {
		end++
	}
	if p.Before == nil && p.Limit == nil {
		return c.events(ctx, s, st, chat, 0, end)
	}
	before := end
	if p.Before != nil && *p.Before < end {
		before = *p.Before
	}
	from := max(0, before-limit)
	page := pageObject{Exact: true}
	if page.Events, err = c.events(ctx, s, st, chat, from, before); err != nil {
		return nil, err
	}
	wire := wireID(s.ID(), st.Default, chat.ID)
	if page.Start, err = c.before(ctx, s, wire, chat.ID, from); err != nil {
		return nil, err
	}
	if from > 0 {
		page.Cursor = &from
	}
	if before == end {
		page.Seq = c.signals.covered(wire, st.Seq)
	}
	return page, nil
}

// events are those of the turns from up to before; the number after the last
// finished turn is the running one.
func (f *Front) events(ctx context.Context, s *host.Session, st *state.State, chat *state.Chat, from, before int) ([]any, error) {
	out := []any{}
	size := 0
	err := eachTurn(ctx, s, chat, from, before, func(t *state.Turn) error {
		for _, e := range f.eventsOf(&st.Info, t) {
			if size += roughSize(e); size > maxAnswer {
				return responseTooLarge
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

// eachTurn visits the turns of a range in order.
func eachTurn(ctx context.Context, s *host.Session, chat *state.Chat, from, before int, visit func(*state.Turn) error) error {
	for n := from; n < min(before, chat.Count); {
		upto := min(n+readTurns, before, chat.Count)
		turns, err := s.Turns(ctx, chat.ID, upto, upto-n)
		if err != nil {
			return err
		}
		for _, t := range turns {
			if err := visit(t); err != nil {
				return err
			}
		}
		n = upto
	}
	if before > chat.Count && from <= chat.Count && chat.Active != nil {
		return visit(chat.Active)
	}
	return nil
}

// roughSize is about what an event takes in an answer, so that a transcript
// too large for one is not built.
func roughSize(e any) int {
	switch e := e.(type) {
	case promptEvent:
		return len(e.Text)
	case textEvent:
		return len(e.Text)
	case toolCall:
		return len(e.Input)
	case toolResult:
		return len(e.Output)
	case imageEvent:
		return len(e.Data)
	}
	return 0
}

// turnObject is a raw turn.
type turnObject struct {
	ID        string      `json:"id"`
	Index     int         `json:"index"`
	Status    string      `json:"status"`
	StartedAt int64       `json:"startedAt"`
	EndedAt   int64       `json:"endedAt,omitempty"`
	Prompt    promptEvent `json:"prompt"`
	Events    []any       `json:"events"`
	Usage     usageObject `json:"usage"`
	Error     string      `json:"error,omitempty"`
	// Synthetic: the server closed a run that a crash had cut off.
	Synthetic bool `json:"synthetic,omitempty"`
}

type usageObject struct {
	Input      int64  `json:"input"`
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cacheRead,omitempty"`
	CacheWrite int64  `json:"cacheWrite,omitempty"`
	ModelID    string `json:"modelId,omitempty"`
}

// sessionsGetTurns pages the raw turns, oldest first from a position.
func sessionsGetTurns(ctx context.Context, c *call, p struct {
	ref
	From  *int `json:"from"`
	Limit *int `json:"limit"`
}) (any, error) {
	limit, err := pageSize(p.Limit)
	if err != nil {
		return nil, err
	}
	from := 0
	if p.From != nil {
		if from = *p.From; from < 0 {
			return nil, badField("from", "want 0 or more")
		}
	}
	s, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	end := chat.Count
	if chat.Active != nil {
		end++
	}
	upto := min(from+limit, end)
	page := struct {
		Turns []turnObject `json:"turns"`
		Next  *int         `json:"next,omitempty"`
	}{Turns: []turnObject{}}
	size := 0
	err = eachTurn(ctx, s, chat, from, upto, func(t *state.Turn) error {
		o := c.turnOf(&st.Info, t)
		for _, e := range o.Events {
			size += roughSize(e)
		}
		if size > maxAnswer {
			return responseTooLarge
		}
		page.Turns = append(page.Turns, o)
		return nil
	})
	if upto < end {
		page.Next = &upto
	}
	return page, err
}

func (f *Front) turnOf(info *event.SessionInfo, t *state.Turn) turnObject {
	o := turnObject{ID: t.ID.String(), Index: t.Number, Status: string(t.Status), StartedAt: t.StartedAt.UnixMilli(),
		Prompt: promptOf(&t.Message), Events: f.eventsOf(info, t), Synthetic: t.Synthetic,
		Usage: usageObject{t.Usage.Input, t.Usage.Output, t.Usage.CacheRead, t.Usage.CacheWrite, t.Usage.Model}}
	if t.Status != event.TurnRunning {
		o.EndedAt = t.StartedAt.Add(t.Duration).UnixMilli()
	}
	if t.Error != nil {
		o.Error = t.Error.Message
	}
	return o
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// oneLine makes a text fit on a line of a list.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
