package cognitio

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/outbox"
)

// The envelope of a frame: one data line and an empty one. No id and no event
// line, which this protocol's clients do not read.
const (
	frameHead = "data: "
	frameTail = "\n\n"
)

// eventIDs makes the ids of events. Clients use them for nothing, so they are
// made cheaply: a time and a counter before digits that one run shares.
type eventIDs struct {
	mu    sync.Mutex
	ms    int64
	count int64
	tail  string
}

func newEventIDs() *eventIDs { return &eventIDs{tail: rand.Text()[:14]} }

const hexDigits = "0123456789abcdef"

// append adds `"id":"evt_…",` to b.
func (g *eventIDs) append(b []byte) []byte {
	now := time.Now().UnixMilli()
	g.mu.Lock()
	if now > g.ms {
		g.ms, g.count = now, 1
	} else if g.count++; g.count >= 1<<12 {
		g.ms, g.count = g.ms+1, 1
	}
	v := uint64(g.ms)<<12 | uint64(g.count)
	g.mu.Unlock()
	b = append(b, `"id":"evt_`...)
	for shift := 44; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&15])
	}
	return append(append(b, g.tail...), `",`...)
}

// event encodes an event as a frame.
func (f *server) event(kind string, properties any) (outbox.Frame, error) {
	props, err := jsonx.Encode(properties)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(frameHead)+len(props)+len(kind)+96)
	b = append(b, frameHead+"{"...)
	b = f.ids.append(b)
	b = append(append(append(b, `"type":"`...), kind...), `","properties":`...)
	b = append(append(b, props...), "}"+frameTail...)
	return b, nil
}

// deltaMiddle is what the delta frames of a part share after the event's id.
func deltaMiddle(session, message, part string) []byte {
	b := []byte(`"type":"message.part.delta","properties":{"sessionID":`)
	b = jsonx.AppendString(b, session)
	b = jsonx.AppendString(append(b, `,"messageID":`...), message)
	b = jsonx.AppendString(append(b, `,"partID":`...), part)
	return append(b, `,"field":"text","delta":`...)
}

// delta encodes a piece of text: the hot path, one allocation.
func (f *server) delta(middle []byte, text string) outbox.Frame {
	b := make([]byte, 0, len(frameHead)+len(middle)+len(text)+len(text)/8+64)
	b = append(b, frameHead+"{"...)
	b = f.ids.append(b)
	b = append(b, middle...)
	b = jsonx.AppendString(b, text)
	return append(b, "}}"+frameTail...)
}
