package wiretest

import "time"

const (
	// defaultTimeout is how long a step waits for what it expects: a busy
	// machine takes its time.
	defaultTimeout = 2 * time.Minute

	// startTimeout is how long the gateway may take to write its endpoints.
	startTimeout = 60 * time.Second

	// stopTimeout is how long the gateway may take to end after SIGTERM.
	stopTimeout = 60 * time.Second

	// pollEvery is how often the endpoints file is looked for.
	pollEvery = 10 * time.Millisecond

	// maxFrame is the longest frame or body in bytes that a client keeps.
	maxFrame = 64 << 20

	// shownFrames and shownBytes bound what a failure repeats of the wire.
	shownFrames = 20
	shownBytes  = 600

	// shownLog is how much of the gateway's log a failure repeats, in bytes.
	shownLog = 4 << 10
)
