package ws

import "time"

const (
	// DefaultReadLimit is the largest message in bytes that a peer may send
	// before the front raises it: enough for any handshake.
	DefaultReadLimit = 64 << 10

	// DefaultPingEvery keeps a connection alive through proxies that cut idle
	// streams after 30 s or more.
	DefaultPingEvery = 20 * time.Second

	// DefaultWriteTimeout is how long a peer may take no bytes at all.
	DefaultWriteTimeout = 10 * time.Second

	// closeWait is how long the peer may take to answer our close frame before
	// the socket goes.
	closeWait = time.Second

	// handshakeTimeout bounds the write of the upgrade answer.
	handshakeTimeout = 5 * time.Second

	// flushSize is the size in bytes of the buffer that gathers the frames of
	// one write; an idle connection has none.
	flushSize = 64 << 10

	// directSize is the length of a run in bytes from which it is not worth
	// copying to send it together with the next.
	directSize = 16 << 10

	// maxHeader is the longest header of an unmasked message, in bytes.
	maxHeader = 10

	// socketBuffer bounds in bytes what the kernel queues for a peer. Left to
	// itself it grows to megabytes, and as a writer is woken only when a third
	// of it is free, a slow peer would look like one that takes nothing.
	socketBuffer = 128 << 10

	// aliveBytes is how much a peer that says nothing must have taken within the
	// read timeout to count as alive, in bytes: more than fits our socket buffer,
	// which the kernel doubles.
	aliveBytes = 4 * socketBuffer

	// controlBufferSize is kept for each connection, in bytes. gorilla writes
	// nothing but control frames, which do not need it.
	controlBufferSize = 16

	// readBufferSize is kept for each connection, in bytes: requests mostly fit,
	// and longer messages are read past it. The HTTP server's own buffer would
	// do, but keeps alive all that the server had for the request.
	readBufferSize = 1 << 10

	// maxReason is the longest close reason in bytes that the protocol allows.
	maxReason = 123
)
