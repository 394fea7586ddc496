package sse

import "time"

const (
	// DefaultHeartbeatEvery beats the idle timeouts of all common proxies, the
	// shortest of which is 30 s, with room for one lost beat.
	DefaultHeartbeatEvery = 10 * time.Second

	// DefaultWriteTimeout is how long a peer may take for one flush.
	DefaultWriteTimeout = 10 * time.Second
)
