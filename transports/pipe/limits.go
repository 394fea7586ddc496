package pipe

import "time"

const (
	// closeWithin is how long the peer may take for what is queued when the
	// connection closes.
	closeWithin = 5 * time.Second

	// flushSize is the size in bytes of the buffer that gathers the lines of one
	// write.
	flushSize = 64 << 10
)
