package cli

import "time"

const (
	// maxQueued is how many bytes of records wait for the program to read
	// them: a few prompts with images.
	maxQueued = 64 << 20
	// tailBytes is how much of the end of stderr, and of stdout lines that
	// are not records, is kept for error messages.
	tailBytes = 8 << 10
	// noiseBytes is how much of one such stdout line is kept.
	noiseBytes = 512
	// drainPause is how long an ended program's pipe may stay silent before
	// it counts as empty: something unmarked may hold its other end.
	drainPause = 250 * time.Millisecond
	// drainBytes is the most that is read after the program's end; a pipe
	// holds no more.
	drainBytes = 1 << 20
	// inputGrace is how long Close waits for the program to end by itself
	// once its stdin is closed.
	inputGrace = 1 * time.Second
	// termGrace is how long it may take after TERM.
	termGrace = 2 * time.Second
	// outputBytes is the most that Output keeps of a short command's output.
	outputBytes = 1 << 20
	// minSecret is the shortest value, in bytes, that is taken for a secret
	// because of its variable's name.
	minSecret = 8
	// strayRounds bounds the scans of EndOthers: each ends what forked while
	// the one before was looking.
	strayRounds = 20
	// strayPause is the wait between two scans.
	strayPause = 10 * time.Millisecond
)
