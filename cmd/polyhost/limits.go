package main

import "time"

const (
	// callWithin is how long one call of `polyhost call` may take.
	callWithin = 60 * time.Second
	// maxReply is the largest message that `polyhost call` reads, in bytes.
	maxReply = 128 << 20
)
