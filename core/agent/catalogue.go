package agent

import (
	"context"
	"time"

	"github.com/polyhost/polyhost/core/event"
)

// Cataloger is a Backend that knows the conversations its agent had before,
// also those that were not begun through the gateway.
type Cataloger interface {
	// Conversations lists them, the newest first.
	Conversations(ctx context.Context, q ConversationQuery) (ConversationPage, error)
	// History reads the turns of one conversation, the oldest first.
	History(ctx context.Context, q HistoryQuery) (HistoryPage, error)
}

// ConversationQuery asks for a page of past conversations.
type ConversationQuery struct {
	// Dir limits the list to one working directory; "" means all.
	Dir string `json:"dir,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
	// Limit is the most entries wanted; 0 leaves it to the agent.
	Limit int `json:"limit,omitempty"`
}

// ConversationPage is a piece of the list.
type ConversationPage struct {
	Conversations []PastConversation `json:"conversations"`
	// Next is the After of the next page, "" at the end.
	Next string `json:"next,omitempty"`
}

// PastConversation is one the agent keeps.
type PastConversation struct {
	// ID is what Open.Resume takes.
	ID  string `json:"id"`
	Dir string `json:"dir,omitempty"`
	// Title is the agent's title or the beginning of the first prompt.
	Title     string    `json:"title,omitempty"`
	Model     string    `json:"model,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// HistoryQuery asks for a page of one conversation's turns.
type HistoryQuery struct {
	ID    string `json:"id"`
	Dir   string `json:"dir,omitempty"`
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// HistoryPage is a piece of a conversation.
type HistoryPage struct {
	Turns []PastTurn `json:"turns"`
	Next  string     `json:"next,omitempty"`
	// File is the absolute path of the file that the agent keeps the conversation
	// in; "" if it is not one file of this machine.
	File string `json:"file,omitempty"`
}

// PastTurn is a turn that is over.
type PastTurn struct {
	At          time.Time          `json:"at,omitzero"`
	Prompt      string             `json:"prompt"`
	Attachments []event.Attachment `json:"attachments,omitempty"`
	// Frames are what the agent did, as Recv would have given them: texts
	// whole in one delta, no requests, TurnEnd last.
	Frames []Frame `json:"frames,omitempty"`
}
