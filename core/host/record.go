package host

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// A log record begins with a byte that says what it holds.
const (
	recordEvent  = 'E' // one event, as JSON
	recordDeltas = 'D' // a run of deltas of one part: exactly as they were sent
	recordLost   = 'L' // numbers that a crash took: deltas of no part
)

// deltaRun is a run of deltas of one field of one part.
type deltaRun struct {
	At    int64       `json:"at"`
	Chat  id.ID       `json:"chat"`
	Turn  id.ID       `json:"turn"`
	Part  id.ID       `json:"part"`
	Field event.Field `json:"field,omitempty"`
	// Text is all pieces together, Lens the length of each in bytes.
	Text string `json:"text"`
	Lens []int  `json:"lens"`
}

func encodeEvent(e *event.Event) (store.Record, error) {
	b, err := e.MarshalJSON()
	if err != nil {
		return store.Record{}, fmt.Errorf("encode event %d %s: %w", e.Seq, e.Body.Kind(), err)
	}
	return store.Record{First: e.Seq, Last: e.Seq, Data: append([]byte{recordEvent}, b...)}, nil
}

// decodeRecord gives the events of a record whose numbers are after `after`
// and at most upto.
func decodeRecord(r store.Record, after, upto uint64) ([]*event.Event, error) {
	if len(r.Data) == 0 {
		return nil, fmt.Errorf("record %d is empty", r.First)
	}
	body := r.Data[1:]
	switch r.Data[0] {
	case recordEvent:
		if r.First <= after || r.First > upto {
			return nil, nil
		}
		e := new(event.Event)
		if err := json.Unmarshal(body, e); err != nil {
			return nil, fmt.Errorf("record %d: %w", r.First, err)
		}
		return []*event.Event{e}, nil
	case recordDeltas:
		var run deltaRun
		if err := json.Unmarshal(body, &run); err != nil {
			return nil, fmt.Errorf("record %d: %w", r.First, err)
		}
		at := time.UnixMilli(run.At).UTC()
		var out []*event.Event
		from := 0
		for i, n := range run.Lens {
			if from+n > len(run.Text) {
				return nil, fmt.Errorf("record %d: pieces are longer than the text", r.First)
			}
			if seq := r.First + uint64(i); seq > after && seq <= upto {
				out = append(out, &event.Event{Seq: seq, At: at, Chat: run.Chat, Turn: run.Turn,
					Body: &event.PartDelta{Part: run.Part, Field: run.Field, Text: run.Text[from : from+n]}})
			}
			from += n
		}
		return out, nil
	case recordLost:
		var out []*event.Event
		for seq := max(r.First, after+1); seq <= min(r.Last, upto); seq++ {
			out = append(out, &event.Event{Seq: seq, Body: &event.PartDelta{}})
		}
		return out, nil
	}
	return nil, fmt.Errorf("record %d is of an unknown form %q", r.First, r.Data[0])
}
