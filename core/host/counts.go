package host

import (
	"sync/atomic"

	"github.com/polyhost/polyhost/core/event"
)

// Counts are totals of what ran since the host was opened. What was brought in
// from elsewhere or read back from disk is not in them.
type Counts struct {
	TurnsStarted, TurnsComplete, TurnsCancelled, TurnsFailed int64
	CallsDone, CallsFailed, CallsDenied, CallsCancelled      int64
	// The tokens that the agents reported.
	InputTokens, OutputTokens int64
}

// counters are the same while they are counted.
type counters struct {
	started, complete, cancelled, failed            atomic.Int64
	callDone, callFailed, callDenied, callCancelled atomic.Int64
	input, output                                   atomic.Int64
}

// Counts reads the totals.
func (h *Host) Counts() Counts {
	c := &h.counters
	return Counts{c.started.Load(), c.complete.Load(), c.cancelled.Load(), c.failed.Load(),
		c.callDone.Load(), c.callFailed.Load(), c.callDenied.Load(), c.callCancelled.Load(), c.input.Load(), c.output.Load()}
}

// count adds an event of a live session.
func (c *counters) count(body event.Body) {
	switch b := body.(type) {
	case *event.TurnStarted, *event.TurnResumed:
		c.started.Add(1)
	case *event.TurnEnded:
		switch b.Status {
		case event.TurnComplete:
			c.complete.Add(1)
		case event.TurnCancelled:
			c.cancelled.Add(1)
		case event.TurnFailed:
			c.failed.Add(1)
		}
	case *event.ToolEnded:
		switch b.Status {
		case event.CallDone:
			c.callDone.Add(1)
		case event.CallFailed:
			c.callFailed.Add(1)
		case event.CallDenied:
			c.callDenied.Add(1)
		case event.CallCancelled:
			c.callCancelled.Add(1)
		}
	case *event.UsageReported:
		c.input.Add(b.Usage.Input)
		c.output.Add(b.Usage.Output)
	}
}
