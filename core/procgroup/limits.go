package procgroup

import "time"

const (
	// reapBound is how long Stop waits for the kernel to end a group that
	// was killed; a process in an uninterruptible system call may take longer.
	reapBound = 2 * time.Second
	// markRounds bounds the scans for marked processes: each round ends
	// what forked while the round before was looking.
	markRounds = 20
	// markPause is the wait between two rounds.
	markPause = 10 * time.Millisecond
)
