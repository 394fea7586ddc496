// Package bae is the BAE front: a REST surface for opening, joining and
// reading sessions, one JSON-RPC endpoint that answers in NDJSON, and an admin
// listener for profiles and keys.
//
// A BAE session is a chat of the host: its id is the session's, or a
// subagent's chat's. A room is what the front keeps of one in memory: who may
// drive, who waits, which turn is paused, and the newest events.
//
// Order: the event log is a projection of the session's own log, so every
// reader sees the same events with the same ids, also after a restart. One
// message is in a turn at a time, first come first served; the owner of a
// paused turn does not queue.
// Loss: none on the way to the log. A stream that falls too far behind is told
// "lagged" and goes on with since_event_id.
// Bounds: limits.go. A stream costs a cursor; what is retained is shared.
// Blocking: nobody waits for a reader. A sender waits for the turns before
// its own; a stalled one holds the gate for releaseAfter at most.
//
// It must not know: agents, other fronts, how events are stored.
package bae
