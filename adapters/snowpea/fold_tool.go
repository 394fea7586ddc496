package snowpea

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/core/event"
)

// toolCalled announces a call, once: after permission, never before.
func (f *fold) toolCalled(c *chatFold, t *toolFold, at time.Time) {
	if t.Called {
		return
	}
	t.Called = true
	f.emit(c, "tool.call", toolCall{CallID: t.Call, Name: t.Name, Args: argsOf(t.Args)}, at)
	line := t.Name
	if t.Title != "" {
		line += ": " + t.Title
	}
	f.childProgress(c, line, at)
}

// toolEnded gives the outcome. A refused call was never announced and has an
// error event instead; one that a cancel met before it ran leaves no trace.
func (f *fold) toolEnded(c *chatFold, b *event.ToolEnded, at time.Time) {
	t := c.Turn.Tools[b.Part]
	if t == nil {
		return
	}
	delete(c.Turn.Tools, b.Part)
	c.Chars += int64(len(b.Output))
	result := toolResult{CallID: t.Call, Name: t.Name, OK: b.Status == event.CallDone, Output: b.Output, Meta: nullValue}
	switch {
	case b.Refused != nil || b.Status == event.CallDenied:
		code, text := refusalOf(b)
		c.Turn.Refused = append(c.Turn.Refused, t.Name)
		if code != "" {
			f.emit(c, "error", errorEvent{code, text}, at)
		}
		result.Error = &text
		f.emit(c, "tool.result", result, at)
		return
	case b.Status == event.CallCancelled && !t.Called:
		return
	case b.Status == event.CallCancelled:
		result.Error = ptr("interrupted")
	case !result.OK:
		text := b.Error
		if text == "" && b.ExitCode != nil {
			text = fmt.Sprintf("exit code %d", *b.ExitCode)
		}
		if text == "" {
			text = "the tool failed"
		}
		result.Error = &text
	}
	f.toolCalled(c, t, at)
	f.emit(c, "tool.result", result, at)
	if !result.OK {
		return
	}
	edits := b.Edits
	if edits == nil {
		edits = t.Edits
	}
	for _, e := range edits {
		if e.Patch != "" {
			f.emit(c, "diff", diffEvent{Path: f.shown(e.Path), Patch: e.Patch}, at)
		}
	}
}

// refusalOf names a refusal in the protocol's words; without a code there is
// no error event.
func refusalOf(b *event.ToolEnded) (code, text string) {
	r := b.Refused
	if r == nil {
		r = &event.Refusal{Code: event.RefusedByMode, Reason: b.Error}
	}
	switch r.Code {
	case event.RefusedExec: // no error: nobody was to be asked
		text = "this session runs no commands"
	case event.RefusedTimeout:
		code, text = "approval_timeout", "nobody approved the call in time"
	case event.RefusedByPerson:
		code, text = "approval_denied", "the call was denied"
	default:
		code, text = "mode_denied", "the session's mode does not allow the call"
	}
	if r.Reason != "" {
		text = r.Reason
		if code == "approval_denied" {
			text = "the call was denied: " + r.Reason
		}
	}
	return code, text
}

// argsOf is a call's input as the object the protocol wants.
func argsOf(input []byte) json.RawMessage {
	if len(input) == 0 || input[0] != '{' {
		return json.RawMessage("{}")
	}
	return input
}

// shown is a path relative to the working directory, if it lies in it.
func (f *fold) shown(path string) string {
	if rel, err := filepath.Rel(f.Dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
