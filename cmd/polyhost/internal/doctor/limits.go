package doctor

import "time"

const (
	// agentWithin is how long an agent may take to say what it is.
	agentWithin = 15 * time.Second
	// probes is how many synced writes are measured, probePage their size in
	// bytes.
	probes    = 20
	probePage = 4 << 10
	// slowSync is the median from which a disk is called slow.
	slowSync = 30 * time.Millisecond
)
