// Package snowpea is the Snowpea front: JSON-RPC 2.0, both ways, over one
// WebSocket at /ws, with three HTTP probes beside it.
//
// Each chat of the core is a Snowpea session; the default chat of a core
// session carries the session's own id. A turn is named by the id of the
// message that opened it, so that a waiting prompt has its turn id at once.
//
//   - Ordering: the events of a session are numbered 1, 2, 3 … by folding the
//     core's log, so the numbers are the same on every connection and after
//     every restart. An answer to a prompt goes out before the events of its
//     turn; the replay of a resume before the live events that follow it.
//   - Loss: none. A connection that is behind is fed from the ring, then from
//     the log; one that takes no bytes is closed and comes back with
//     session.resume.
//   - Bounds: limits.go. The replay inside one answer is bounded; what does not
//     fit follows as session.event.
//   - Blocking: the projection never waits for a connection. Handlers wait for
//     the core's disk, each on its own.
//
// It must not know any agent CLI, and keeps no fact of a session that the
// core's log does not hold; what it stores (numbering, usage rows) can be made
// again from the log.
package snowpea
