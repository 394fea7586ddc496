package zidane

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
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

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// oneLine makes a text fit on a line of a list.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
