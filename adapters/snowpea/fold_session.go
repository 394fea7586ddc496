package snowpea

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// The keys of a session's Meta that this front writes.
const (
	metaOwner   = frontName + ".owner"   // JSON string: hostToolsFrom
	metaSurface = frontName + ".surface" // JSON string: originSurface
	metaKind    = frontName + ".client"  // JSON string: clientKind of the creator
	metaCommand = frontName + ".command" // commandRecord: the newest command
	metaMode    = frontName + ".mode"    // JSON string: the mode that was set last, the same one too
)

// commandRecord is a slash command that was answered without the agent. Being
// part of the log it is numbered and replayed like any turn.
type commandRecord struct {
	Chat id.ID  `json:"chat"`
	Turn id.ID  `json:"turn"`
	Line string `json:"line"`
	Text string `json:"text,omitempty"`
	// Code and Message say why it failed.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

func (f *fold) created(b *event.SessionCreated) {
	f.Backend, f.Settings, f.Default = b.Info.Backend, b.Info.Settings, b.Default
	if len(b.Info.Dirs) > 0 {
		f.Dir = b.Info.Dirs[0]
	}
	f.Owner = metaString(b.Info.Meta, metaOwner)
	f.Chats[b.Default] = &chatFold{ID: b.Default, Origin: event.OriginUser}
}

func (f *fold) updated(b *event.SessionUpdated, at time.Time) {
	if len(b.Dirs) > 0 {
		f.Dir = b.Dirs[0]
	}
	if _, ok := b.Meta[metaOwner]; ok {
		f.Owner = metaString(b.Meta, metaOwner)
		for _, c := range f.Chats {
			c.head = nil
		}
	}
	var command commandRecord
	raw, ok := b.Meta[metaCommand]
	if ok && json.Unmarshal(raw, &command) != nil {
		ok = false
	}
	c := f.Chats[command.Chat]
	if !ok || c == nil {
		f.settings(b, at)
		return
	}
	turn := command.Turn.String()
	f.emit(c, "turn.started", turnStarted{TurnID: turn, Prompt: &command.Line, Initiator: "user"}, at)
	f.settings(b, at)
	reason := "complete"
	if command.Code != "" {
		reason = "error"
		f.emit(c, "error", errorEvent{command.Code, command.Message}, at)
	} else {
		f.emit(c, "message.done", messageDone{Text: command.Text, Role: "assistant"}, at)
	}
	f.emit(c, "turn.done", turnDone{TurnID: turn, Reason: reason}, at)
}

// settings announces a change of mode, model, effort or agent on every
// session that a person can prompt.
func (f *fold) settings(b *event.SessionUpdated, at time.Time) {
	old, now := f.Settings, f.Settings
	if b.Settings != nil {
		now = *b.Settings
	}
	f.Settings = now
	_, set := b.Meta[metaMode]
	for _, c := range f.inOrder(forPeople) {
		if old.Mode != now.Mode || set {
			f.emit(c, "mode.changed", modeChanged{Mode: modeName(now.Mode)}, at)
		}
		if old.Model != now.Model || old.Effort != now.Effort {
			f.emit(c, "model.changed", f.model(), at)
		}
		if old.Agent != now.Agent {
			f.emit(c, "agent.changed", agentChanged{ptr(now.Agent)}, at)
		}
	}
}

// forPeople reports whether a person can prompt the chat.
func forPeople(c *chatFold) bool { return c.Origin != event.OriginSubagent }

// inOrder are the chats that fit, in the order they were made.
func (f *fold) inOrder(fits func(*chatFold) bool) []*chatFold {
	var out []*chatFold
	for _, c := range f.Chats {
		if fits(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *chatFold) int { return a.ID.Compare(b.ID) })
	return out
}

func (f *fold) model() modelChanged {
	efforts := effortsOf(f.info(), f.Settings.Model)
	m := modelChanged{Provider: ptr(f.Backend), Model: ptr(f.Settings.Model), Efforts: efforts}
	if slices.Contains(efforts, f.Settings.Effort) {
		m.Effort, m.EffortSource = ptr(f.Settings.Effort), ptr("session")
	}
	return m
}

// modeName spells a mode; the protocol has no word for "none".
func modeName(m event.Mode) string {
	switch m {
	case event.ModePlan, event.ModeAuto:
		return string(m)
	}
	return string(event.ModeAccept)
}

// metaString reads a JSON string out of a session's Meta.
func metaString(meta map[string]json.RawMessage, key string) string {
	var s string
	if raw, ok := meta[key]; ok && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return ""
}

// metaValue makes a value for a session's Meta.
func metaValue(s string) json.RawMessage { return jsonx.AppendString(nil, s) }
