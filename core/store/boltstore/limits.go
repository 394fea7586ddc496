package boltstore

import "time"

const (
	// groupWait is how long the first durable batch waits for company. The
	// two syncs of a commit cost about as much, so the wait at most doubles
	// the time of a lone batch and saves a commit for each that joins.
	groupWait = 2 * time.Millisecond
	// groupRecords is the number of records, values and removals that ends
	// the wait early: a commit of so many costs little more than of one.
	groupRecords = 256
	// lazyWait is how long a lazy batch waits for a group to join. It is the
	// most that a crash loses of it.
	lazyWait = 50 * time.Millisecond
	// maxQueue bounds the bytes of batches that are not written yet; Commit
	// blocks while they are more. One batch may go over it.
	maxQueue = 64 << 20
	// batchCost is counted for each batch and each of its entries on top of
	// their bytes, so that empty ones are bounded too.
	batchCost = 128

	// openTimeout is how long Open waits for another process to let go: long
	// enough for one that is ending, short enough for a person.
	openTimeout = time.Second
	// initialMap is the address space mapped at first, in bytes. The map
	// grows only when no reader is under way; below this size it never has to.
	initialMap = 1 << 30
	// fill is how full the pages of a log are made: it is only appended to,
	// so half-full pages would never be filled.
	fill = 0.95
)
