package boltstore

import "time"

const (
	// lazyWait is how long a lazy batch waits for a durable one to go with:
	// what a crash may cost a part that is still running.
	lazyWait = 50 * time.Millisecond
	// maxQueue bounds the bytes of batches that are not written yet; Commit
	// blocks while they are more. One batch may go over it.
	maxQueue = 64 << 20
	// batchCost is counted for each batch and each of its entries on top of
	// their bytes, so that empty ones are bounded too.
	batchCost = 128

	// maxFreePages is the longest list of free pages that is written with each
	// commit, which is a page of the file for 512 of them. Without the list,
	// opening reads the whole file; with a list that a dropped log made long,
	// every commit writes all of it.
	maxFreePages = 4096

	// largeValue is the size in bytes from which a record or value has pages of
	// its own: from here on that halves what is written, at least, and costs no
	// more processor time.
	largeValue = 16 << 10

	// probeSize is what a look at the health of the home writes after a failed
	// write: more than the file usually has room for inside.
	probeSize = 256 << 10

	// openTimeout is how long Open waits for another process to let go: long
	// enough for one that is ending, short enough for a person, who knows
	// within a second that the home is taken.
	openTimeout = 800 * time.Millisecond
	// initialMap is the address space mapped at first, in bytes. The map
	// grows only when no reader is under way; below this size it never has to.
	initialMap = 1 << 30
	// fill is how full the pages of a log are made: it is only appended to,
	// so half-full pages would never be filled.
	fill = 0.95
)
