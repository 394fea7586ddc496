package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// ErrUnknownKind is wrapped when a stored event has a kind this version does
// not know: it was written by a newer gateway.
var ErrUnknownKind = errors.New("unknown event kind")

// bodies makes an empty body for each kind.
var bodies = map[Kind]func() Body{}

func init() {
	for _, make := range []func() Body{
		func() Body { return new(SessionCreated) },
		func() Body { return new(SessionUpdated) },
		func() Body { return new(ChatAdded) },
		func() Body { return new(ChatUpdated) },
		func() Body { return new(ChatRemoved) },
		func() Body { return new(ChatsReordered) },
		func() Body { return new(ChatTruncated) },
		func() Body { return new(ClientToolsSet) },
		func() Body { return new(DraftChanged) },
		func() Body { return new(TurnStarted) },
		func() Body { return new(TurnResumed) },
		func() Body { return new(TurnEnded) },
		func() Body { return new(TurnPointed) },
		func() Body { return new(MessageQueued) },
		func() Body { return new(MessageUpdated) },
		func() Body { return new(MessageRemoved) },
		func() Body { return new(QueueReordered) },
		func() Body { return new(PlanUpdated) },
		func() Body { return new(UsageReported) },
		func() Body { return new(ContextReported) },
		func() Body { return new(WorkChanged) },
		func() Body { return new(PartStarted) },
		func() Body { return new(PartDelta) },
		func() Body { return new(PartEnded) },
		func() Body { return new(ToolReady) },
		func() Body { return new(ToolRunning) },
		func() Body { return new(ToolLinked) },
		func() Body { return new(ToolProgress) },
		func() Body { return new(ToolEnded) },
		func() Body { return new(InteractionOpened) },
		func() Body { return new(InteractionResolved) },
	} {
		bodies[make().Kind()] = make
	}
}

// wire is the stored form of an event.
type wire struct {
	Seq  uint64          `json:"seq"`
	At   int64           `json:"at"` // milliseconds since the epoch
	Kind Kind            `json:"kind"`
	Chat id.ID           `json:"chat,omitzero"`
	Turn id.ID           `json:"turn,omitzero"`
	Body json.RawMessage `json:"body"`
}

// MarshalJSON writes the stored form.
func (e *Event) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(e.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(wire{e.Seq, e.At.UnixMilli(), e.Body.Kind(), e.Chat, e.Turn, body})
}

// UnmarshalJSON reads the stored form.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	make, ok := bodies[w.Kind]
	if !ok {
		return fmt.Errorf("%w %q", ErrUnknownKind, w.Kind)
	}
	body := make()
	if err := json.Unmarshal(w.Body, body); err != nil {
		return fmt.Errorf("event %d %s: %w", w.Seq, w.Kind, err)
	}
	*e = Event{Seq: w.Seq, At: time.UnixMilli(w.At).UTC(), Chat: w.Chat, Turn: w.Turn, Body: body}
	return nil
}
