package gateway

import "time"

const (
	// stopWithin bounds a stop on top of the grace of running turns: what an
	// agent that ignores its interrupt gets, and the writing of what is left.
	stopWithin = 15 * time.Second
	// drainWithin bounds how long clients get to take their last frames.
	drainWithin = 3 * time.Second
)
