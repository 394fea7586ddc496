// Package ahp is the front for the Agent Host Protocol, versions 1.0.0, 0.10.0
// and 0.9.0, as editors speak it: JSON-RPC commands, and actions that every
// client folds into the state of the channels it subscribed to.
//
// Ordering: one journal numbers every action of the host (serverSeq); a
// connection gets the actions of its channels in that order, and an answer to
// subscribe before the first action that follows its snapshot. The messages of
// one connection are handled one after another; only ping overtakes, and
// requests about resources go beside the others, as they may wait for a client.
// Loss: none while connected. A connection that falls behind is fed from the
// journal; when the journal no longer reaches back it is closed and may
// reconnect, which answers with what it missed or with new snapshots.
// Notifications other than actions are not replayed, as the protocol says.
// Bounds: limits.go. Blocking: nobody waits for a client; a snapshot holds up
// the projection of its own session only while it is encoded.
//
// A session is projected once for each spelling of its name in use, and each
// frame is encoded once however many connections listen. Snapshots are made
// from the same folded state at the same position as the actions, so a client
// that reduces actions and one that reads a snapshot hold the same.
//
// It keeps no session facts of its own. What is its own: serverSeq, the
// journal, who is an active client, and answers that are still being typed.
package ahp
