package claude

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// pastRecord is a line of a transcript.
type pastRecord struct {
	Type          string          `json:"type"`
	UUID          string          `json:"uuid"`
	Cwd           string          `json:"cwd"`
	Timestamp     time.Time       `json:"timestamp"`
	Sidechain     bool            `json:"isSidechain"`
	Meta          bool            `json:"isMeta"`
	Compact       bool            `json:"isCompactSummary"`
	IsAPIError    bool            `json:"isApiErrorMessage"`
	APIStatus     int             `json:"apiErrorStatus"`
	APIErrorType  string          `json:"apiErrorType"`
	Message       json.RawMessage `json:"message"`
	ToolUseResult json.RawMessage `json:"toolUseResult"`
	AITitle       string          `json:"aiTitle"`
	CustomTitle   string          `json:"customTitle"`
	Summary       string          `json:"summary"`
}

const interruptedText = "[Request interrupted"

// commandShape is how a slash command is kept.
var commandShape = regexp.MustCompile(`(?s)<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>)?$`)

// prompt is what a person said, if the line is that.
func (r *pastRecord) prompt() (text string, attachments []event.Attachment, ok bool) {
	var m message
	if r.Type != "user" || r.Sidechain || r.Meta || r.Compact || json.Unmarshal(r.Message, &m) != nil || m.Role != "user" {
		return "", nil, false
	}
	for _, b := range blocks(m.Content) {
		switch b.Type {
		case "tool_result":
			return "", nil, false
		case "text":
			if text != "" {
				text += "\n"
			}
			text += b.Text
		case "image":
			if b.Source == nil {
				continue
			}
			if data, err := base64.StdEncoding.DecodeString(b.Source.Data); err == nil && len(data) > 0 {
				attachments = append(attachments, event.Attachment{Kind: event.AttachImage, MIME: b.Source.MediaType, Data: data, Size: int64(len(data))})
			}
		}
	}
	if c := commandShape.FindStringSubmatch(text); c != nil {
		text = strings.TrimSpace(c[1] + " " + c[2])
	}
	if strings.HasPrefix(text, interruptedText) || strings.HasPrefix(text, "<local-command-") || text == "" && len(attachments) == 0 {
		return "", nil, false
	}
	return text, attachments, true
}

// record is the line as the CLI would have said it.
func (r *pastRecord) record() *record {
	return &record{Type: r.Type, UUID: r.UUID, Message: r.Message, IsAPIError: r.IsAPIError, ToolUseResult: r.ToolUseResult,
		APIStatus: r.APIStatus, APIErrorType: r.APIErrorType}
}

// History reads the turns from the place that After names, which is an offset
// in the file.
func (b *Backend) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	var page agent.HistoryPage
	f, err := b.find(q.ID)
	if err != nil {
		return page, err
	}
	defer f.Close()
	page.File = f.Name()
	var at int64
	if q.After != "" {
		if at, err = strconv.ParseInt(q.After, 10, 64); err != nil || at < 0 {
			return page, fmt.Errorf("%q is no place in a conversation", q.After)
		}
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return page, fmt.Errorf("read the conversation %s: %w", q.ID, err)
	}
	in := lines.NewReader(f, 0)
	limit, size := bounded(q.Limit, maxTurns), 0
	var t *replay
	for ctx.Err() == nil {
		begin := at
		line, err := in.Next()
		var long *lines.TooLongError
		switch {
		case errors.As(err, &long):
			at += long.Length + 1
			continue
		case err != nil:
			page.Turns = t.end(page.Turns)
			return page, nil
		}
		at += int64(len(line)) + 1
		var r pastRecord
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &r) != nil {
			continue
		}
		if text, attachments, ok := r.prompt(); ok {
			page.Turns = t.end(page.Turns)
			if len(page.Turns) == limit || size > pageBytes {
				page.Next = strconv.FormatInt(begin, 10)
				return page, nil
			}
			t = newReplay(agent.PastTurn{At: r.Timestamp, Prompt: text, Attachments: attachments})
		} else if t != nil {
			t.take(&r)
		}
		size += len(line)
	}
	return page, ctx.Err()
}

// replay makes frames of a past turn's lines.
type replay struct {
	turn agent.PastTurn
	m    *mapper
	stop agent.Frame
}

func newReplay(turn agent.PastTurn) *replay {
	m := newMapper(nil)
	m.open, m.past = true, true
	return &replay{turn: turn, m: m, stop: agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete}}
}

func (t *replay) take(r *pastRecord) {
	if r.Sidechain || r.Meta {
		return
	}
	if r.Type == "assistant" || r.Type == "user" {
		t.stop.Point = r.UUID
	}
	switch r.Type {
	case "assistant":
		t.m.assistant(r.record())
		if r.IsAPIError {
			var m message
			_ = json.Unmarshal(r.Message, &m)
			failed := r.record()
			failed.Result = resultText(m.Content)
			t.stop.Status, t.stop.Error = event.TurnFailed, failure(failed)
		}
	case "user":
		t.m.user(r.record())
		var m message
		if json.Unmarshal(r.Message, &m) == nil && strings.HasPrefix(resultText(m.Content), interruptedText) {
			t.stop.Status, t.stop.Error = event.TurnCancelled, nil
		}
	}
}

// end appends the turn to the others.
func (t *replay) end(turns []agent.PastTurn) []agent.PastTurn {
	if t == nil {
		return turns
	}
	frames, _, _ := t.m.take()
	t.turn.Frames = append(frames, t.stop)
	return append(turns, t.turn)
}
