// Package zidane serves the zidane server protocol: JSON-RPC 2.0 over one
// WebSocket, with what happens pushed as ipc.signal notifications.
//
// A session of the core is a session here; its further chats (subagents, side
// chats) are sessions of their own whose id is the chat's. A turn of the core is a run,
// and one position of a transcript.
//
//   - Ordering: the signals of a session carry $seq, counted from 1 in each
//     process, and reach every connection in that order. An answer says what
//     held when it was made; signals overtake it.
//   - Loss: none of numbered signals. A connection too far behind is closed
//     and resumes with sessions.resume from the log of signals, or is told of a
//     gap and reads the transcript. Drafts are sent without a number and the
//     last one counts.
//   - Bounds: limits.go. A connection holds at most its outbox.
//   - Blocking: the projection of a session waits for nobody; a signal is
//     encoded once and shared by all connections and by the log.
//
// It must not know which agent runs, and keeps no fact of a session that
// another front could not see.
package zidane
