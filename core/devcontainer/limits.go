package devcontainer

import "time"

const (
	// MaxFrame is the largest frame of a relay in bytes, either way: as large as a
	// client of the gateway itself may send.
	MaxFrame = 32 << 20
	// upWithin is how long a container may take to come up: its image may be
	// fetched and built.
	upWithin = 30 * time.Minute
	// readyWithin is how long the gateway in a container may take to start; the
	// one before may have to stop first.
	readyWithin = 2 * time.Minute
	// dockerWithin is how long a single command of docker may take.
	dockerWithin = 2 * time.Minute
	// sendWithin is how long the gateway in a container may leave a frame unread.
	sendWithin = time.Minute
	// closeWithin is how long a gateway may take to stop once its client is gone;
	// then its programs on this side are ended.
	closeWithin = 5 * time.Second
	// endWithin is how long a program may take to end when it is told to.
	endWithin = 2 * time.Second
	// drainWithin is how long is waited for output that what a program left behind
	// holds open.
	drainWithin = time.Second
	// freeWithin is how long a relay to a folder waits for the one before to end:
	// its client has left perhaps.
	freeWithin = 30 * time.Second
	// maxAnswer is how much of a program's answer is kept, in bytes: the end.
	maxAnswer = 64 << 10
	// maxWords is how much is told of why a program failed, in bytes.
	maxWords = 500
	// outputChunk is how much output is told at once, in bytes.
	outputChunk = 8 << 10
)
