package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// validPrefix is at most n bytes of s, cut between characters.
func validPrefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clipTitle trims a title and cuts it to what lists show.
func clipTitle(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if utf8.RuneCountInString(s) <= MaxTitle {
		return s
	}
	return string([]rune(s)[:MaxTitle-1]) + "…"
}

// clipOutput keeps the beginning and the end of an output that is too long.
func clipOutput(s string) (kept string, dropped int64) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxToolOutput {
		return s, 0
	}
	head := validPrefix(s, KeepHead)
	from := len(s) - (MaxToolOutput - KeepHead)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return head + s[from:], int64(from - len(head))
}

// clipEdits leaves out file texts that are too large to keep.
func clipEdits(edits []event.FileEdit) []event.FileEdit {
	if len(edits) == 0 {
		return nil
	}
	out := make([]event.FileEdit, min(len(edits), MaxEdits))
	room := MaxEditsText
	keep := func(text *string) *string {
		if text == nil || len(*text) > min(MaxEditText, room) {
			return nil
		}
		room -= len(*text)
		return text
	}
	for i := range out {
		e := edits[i]
		e.Patch = validPrefix(e.Patch, min(MaxEditText, room))
		room -= len(e.Patch)
		e.Before, e.After = keep(e.Before), keep(e.After)
		out[i] = e
	}
	return out
}

// encodeTurn is the stored form of a finished turn, of bounded size.
func encodeTurn(t *state.Turn) ([]byte, error) {
	b, err := json.Marshal(t)
	if err != nil || len(b) <= MaxTurnRecord {
		return b, err
	}
	short := *t
	short.Parts = make([]*event.Part, 0, len(t.Parts)+1)
	for _, p := range t.Parts {
		q := *p
		q.Text = event.TextOf(validPrefix(q.Text.String(), MaxCutText))
		if q.Tool != nil {
			tool := *q.Tool
			tool.Output = event.TextOf(validPrefix(tool.Output.String(), MaxCutText))
			tool.Dropped += int64(p.Tool.Output.Len() - tool.Output.Len())
			tool.Edits = nil
			if len(tool.Input) > MaxCutText {
				tool.Input = json.RawMessage(`{}`)
			}
			q.Tool = &tool
		}
		short.Parts = append(short.Parts, &q)
		if len(short.Parts) == MaxTurnRecord/(4*MaxCutText) {
			break
		}
	}
	short.Parts = append(short.Parts, &event.Part{ID: id.New(), Kind: event.PartNotice, StartedAt: t.StartedAt, EndedAt: t.StartedAt,
		Notice: &event.Notice{Level: "warning", Code: "truncated", Text: "this turn was too long to keep whole; its events still are"}})
	return json.Marshal(&short)
}

// object is raw if it is a JSON object of bounded size, else nil.
func object(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || len(raw) > MaxPrompt || raw[0] != '{' || !json.Valid(raw) {
		return nil
	}
	return raw
}
