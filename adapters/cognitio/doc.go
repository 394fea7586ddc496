// Package cognitio is the front that web apps and opencode-family clients
// speak: REST for commands and history, one SSE stream of events.
//
// A chat is a session here: the default chat under the session's id, every
// other one (subagents, side chats) under its own with the session as its
// parent. A turn is a user message and one assistant message for each step the agent
// took: a step ends where text follows a tool call, or where a steering
// message was taken in. Live frames and history come from the same fold, so
// they carry the same ids; ids that the core does not have are arithmetic on
// those it has.
//
//   - Ordering: the events of a session reach every stream in the order they
//     happened. session.result comes before session.idle, and a session is not
//     idle while messages wait in its queue.
//   - Loss: a stream starts with now and replays nothing, as this protocol's
//     own servers do; a client that was away reads messages, permissions and
//     questions again. A stream that falls further behind than its topic keeps
//     is closed, never thinned out.
//   - Bounds: each event is encoded once, for whoever listens; with nobody
//     listening it is not encoded at all. Bodies, lists, files and streams are
//     bounded by limits.go.
//   - Blocking: no stream is ever waited for. A handler waits for its own
//     client, and POST message for its own turn.
//
// It must not know other fronts, agents or how events are stored.
package cognitio
