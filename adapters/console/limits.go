package console

import "time"

const (
	// probeWithin is how long the agents may take to say what they are when they
	// are asked again.
	probeWithin = 8 * time.Second
	// requestWithin bounds one request of the client, streams excepted.
	requestWithin = 10 * time.Second
	// maxAnswer is the largest answer the client reads, in bytes: a few
	// hundred thousand sessions.
	maxAnswer = 256 << 20
	// maxEvent is the largest event the client reads, in bytes: the longest
	// text of a part, should every byte of it need six to be written.
	maxEvent = 128 << 20
	// retryFirst and retryMost are the pauses before a broken stream is asked
	// for again; each is twice the one before.
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	// settleWithin is how long a stream must have lived for the pauses to
	// begin anew.
	settleWithin = 10 * time.Second
)
