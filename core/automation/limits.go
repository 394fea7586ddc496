package automation

import "time"

const (
	// MaxAutomations is how many automations there may be: all are in memory,
	// with the runs that are kept.
	MaxAutomations = 200
	// MaxHistory is how many runs that are over are kept of each, the newest.
	MaxHistory = 100
	// MaxRunning is how many runs are on their way at once: each has an agent.
	MaxRunning = 4
	// MaxWaiting is how many runs of one automation may wait for their turn.
	MaxWaiting = 16
	// MaxTriggers is how many schedules one automation has.
	MaxTriggers = 16
	// MaxName bounds names and ids that clients choose, in bytes, and titles.
	MaxName = 1024
	// MaxExpression is the longest schedule, in bytes.
	MaxExpression = 256
	// MaxDefinition is the largest stored form of a definition, in bytes: it is
	// told whole with every change.
	MaxDefinition = 256 << 10

	// lateAfter is by how much a run may be late and still count as on time.
	lateAfter = time.Minute
	// maxSleep is how long the clock is trusted: a machine that slept, or whose
	// clock was set, is noticed that soon.
	maxSleep = time.Minute
	// retryAfter is how long a run waits that could not be stored.
	retryAfter = 10 * time.Second
	// storeWithin bounds the wait for the store, and what is asked for when a run
	// is over.
	storeWithin = 30 * time.Second
	// pageKeys is how many records are read at once at the start.
	pageKeys = 500
)
