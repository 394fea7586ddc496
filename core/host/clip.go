package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
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
	out := make([]event.FileEdit, len(edits))
	for i, e := range edits {
		if e.Before != nil && len(*e.Before) > MaxEditText {
			e.Before = nil
		}
		if e.After != nil && len(*e.After) > MaxEditText {
			e.After = nil
		}
		if len(e.Patch) > MaxEditText {
			e.Patch = validPrefix(e.Patch, MaxEditText)
		}
		out[i] = e
	}
	return out
}

// object is raw if it is a JSON object of bounded size, else nil.
func object(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || len(raw) > MaxPrompt || raw[0] != '{' || !json.Valid(raw) {
		return nil
	}
	return raw
}
