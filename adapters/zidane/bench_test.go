package zidane

import (
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/outbox"
)

// BenchmarkDelta is the cost of one streamed piece from the event to the queues
// of its connections.
func BenchmarkDelta(b *testing.B) {
	for name, clients := range map[string]int{"1 client": 1, "100 clients": 100} {
		b.Run(name, func(b *testing.B) {
			f := &Front{signals: newSignals("epoch", keptSignals)}
			p := &projection{f: f, sid: id.New(), said: true, runs: map[id.ID]*run{}, parts: map[id.ID]*openPart{}}
			part := event.Part{ID: id.New(), Kind: event.PartText}
			turn := id.New()
			p.openPart(&state.State{}, id.Nil, turn, &part)
			outs := make([]*outbox.Outbox, clients)
			for i := range outs {
				outs[i] = outbox.New(0)
				defer f.signals.topic.Attach(outs[i], fanout.AttachOptions{}).Detach()
			}
			e := &event.Event{At: time.Now(), Turn: turn, Body: &event.PartDelta{Part: part.ID, Text: "a word or two "}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.Deltas([]*event.Event{e}, nil)
				if i%64 == 0 {
					for _, o := range outs {
						_, _ = o.Take()
						_, _ = o.Take()
					}
				}
			}
		})
	}
}
