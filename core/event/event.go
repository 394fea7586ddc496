// Package event is the vocabulary of the neutral core: what a session, a chat,
// a turn and a part are made of, and everything that can happen to them.
//
// Events are the truth. A session is its events in the order of their sequence
// numbers, 1, 2, 3 … without a gap; package state folds them. The package holds
// data only: it knows no front, no agent CLI and no storage.
package event

import (
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// Event is one thing that happened in a session. Events are immutable once
// appended: everyone who gets one shares it.
type Event struct {
	// Seq is the position in the session, from 1, without gaps.
	Seq uint64
	// At is when it happened, to the millisecond, UTC.
	At time.Time
	// Chat is the chat it happened in; Nil for what concerns the session.
	Chat id.ID
	// Turn is the turn it belongs to; Nil outside of turns.
	Turn id.ID
	// Body says what happened.
	Body Body
}

// Kind is the stable name of a body type, as stored on disk.
type Kind string

// Body is the payload of an event: a pointer to one of the structs of this
// package.
type Body interface {
	Kind() Kind
}

// Durability says how soon an event must be on disk.
type Durability int

const (
	// Lazy events reach the disk within the flush window; a crash may lose
	// the last of them.
	Lazy Durability = iota
	// Durable events are stored before whoever caused them is answered.
	Durable
	// Barrier events are durable, and subscribers see them only once they
	// are stored: an end that was announced has happened.
	Barrier
)

// DurabilityOf tells how soon a body must be on disk.
func DurabilityOf(b Body) Durability {
	switch b.(type) {
	case *PartDelta, *DraftChanged, *ContextReported, *WorkChanged:
		return Lazy
	case *PartEnded, *ToolEnded, *TurnEnded, *InteractionResolved:
		return Barrier
	}
	return Durable
}

// Actor is who did something: a client of a front, or the gateway itself.
type Actor struct {
	// Front is the front's name, or "gateway", or "agent".
	Front string `json:"front,omitempty"`
	// Client is the client's id on that front.
	Client string `json:"client,omitempty"`
	// Name is for people.
	Name string `json:"name,omitempty"`
	// User is the person behind the client, where the gateway knows people:
	// user:NAME or root:HOST.
	User string `json:"user,omitempty"`
}

// Gateway is the actor of what the gateway does on its own account.
var Gateway = Actor{Front: "gateway"}

// Error is why something failed, in terms that every front can pass on.
type Error struct {
	// Code is a stable word: one of the ErrorCode constants or the
	// agent's own.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable,omitempty"`
}

// The codes of turn and agent errors that the gateway itself gives.
const (
	CodeAgentFailed   = "agent_failed"   // the agent ended the turn with an error
	CodeAgentCrashed  = "agent_crashed"  // the agent or its plugin process died
	CodeAgentStart    = "agent_start"    // the agent could not be started
	CodeInterrupted   = "interrupted"    // a restart or shutdown of the gateway cut the turn
	CodeRefusals      = "denied"         // too many refused calls in one turn
	CodeBadAttachment = "bad_attachment" // an attachment could not be read
)

// The codes by which drivers tell why an agent or its model failed a turn.
const (
	CodeBadRequest  = "bad_request"      // the model refused the request as wrong
	CodeAuth        = "auth"             // not signed in, or not allowed
	CodeRateLimited = "rate_limited"     // too many requests, or a quota is used up
	CodeOverloaded  = "overloaded"       // the model's service failed or is too busy
	CodeCutStream   = "cut_stream"       // the connection to the model broke
	CodeRefusal     = "refusal"          // the model or its provider declined to answer
	CodeOverflow    = "context_overflow" // the conversation is too long for the model
	CodeMaxTurns    = "max_turns"        // the agent's own limit of steps
	CodeMaxTokens   = "max_tokens"       // the answer reached the limit of tokens
	CodeAgentDied   = "agent_died"       // the agent's program ended in the turn
	CodeAgentError  = "agent_error"      // anything else, in the agent's words
)
