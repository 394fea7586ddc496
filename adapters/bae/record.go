package bae

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// frontName is the front's name in actors, aliases and meta keys.
const frontName = "bae"

// What the front writes into a session's own log, so that its events have a
// place among the others. Everything the projection uses is either a core
// event or one of these.
const (
	metaOpen  = frontName + ".open"  // an opening, from the session's creation on
	metaNote  = frontName + ".note"  // the newest note
	metaError = frontName + ".error" // a string: why the session takes no more turns
)

// opening is what a BAE client opened a session with.
type opening struct {
	Profile string      `json:"profile"`
	Key     string      `json:"key"`
	Payload openPayload `json:"payload"`
}

// openPayload is the payload of session.open and session.join.
type openPayload struct {
	ClientVersion *string  `json:"client_version"`
	Tools         []string `json:"tools"`
	SandboxTools  []string `json:"sandbox_tools"`
	SubagentTools []string `json:"subagent_tools"`
}

// note is what happened in a BAE session that the core has no event for.
type note struct {
	// Chat is the conversation that the BAE session shows.
	Chat id.ID `json:"chat"`
	// Events are written as they are.
	Events []noted `json:"events,omitempty"`
	// Pause ends a leg of the running turn.
	Pause *pauseNote `json:"pause,omitempty"`
}

// noted is an event that the front gives in full.
type noted struct {
	Type    string          `json:"type"`
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`
}

// pauseNote pauses a turn for the client calls it lists.
type pauseNote struct {
	Turn id.ID `json:"turn"`
	// Key is who has to answer.
	Key          string  `json:"key"`
	Interactions []id.ID `json:"interactions"`
}

// spoken is the front's own form of a message (event.Message.Rich) and of the
// answer that resumes a paused turn (event.Resolution.Rich).
type spoken struct {
	// Leg tells the request that wrote it.
	Leg  string `json:"leg"`
	Role string `json:"role"`
	// Content is what is shown as sent: after a pause, the merged blocks.
	Content json.RawMessage `json:"content"`
	// Results are the client's tool results in Content, also made-up ones.
	Results []toolResult `json:"results,omitempty"`
	// Tools are what the acting client offered, Routes who runs them.
	Tools  []toolDecl `json:"tools"`
	Routes routes     `json:"routes,omitzero"`
	Model  string     `json:"model,omitempty"`
}

// routes are the names of the acting client's tools that it does not run.
type routes struct {
	Sandbox  []string `json:"sandbox,omitempty"`
	Subagent []string `json:"subagent,omitempty"`
}

// of is who runs a tool of the acting client.
func (r routes) of(tool string) string {
	switch {
	case slices.Contains(r.Sandbox, tool):
		return dispatchSandbox
	case slices.Contains(r.Subagent, tool):
		return dispatchSubagent
	}
	return dispatchClient
}

// toolResult is one answered client call.
type toolResult struct {
	ID      string          `json:"id"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error,omitempty"`
}

// noteMeta is the session update that carries a note.
func noteMeta(by event.Actor, n note) *event.SessionUpdated {
	return &event.SessionUpdated{By: by, Meta: map[string]json.RawMessage{metaNote: mustJSON(n)}}
}

// mustJSON encodes the front's own types, which cannot fail.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("bae: " + err.Error())
	}
	return b
}

// keyOf is the key id that an actor's deeds are shown under. A front that has
// no BAE keys has one stable id.
func keyOf(by event.Actor) string {
	if by.Front == frontName {
		return by.Client
	}
	sum := sha256.Sum256([]byte("polyhost front " + by.Front))
	var u id.ID
	copy(u[:], sum[:])
	return u.BAE("key")
}

// openingOf reads how the session was opened; ok is false when another front
// did it.
func openingOf(info *event.SessionInfo) (o opening, ok bool) {
	raw, ok := info.Meta[metaOpen]
	if !ok || json.Unmarshal(raw, &o) != nil {
		return opening{}, false
	}
	return o, true
}
