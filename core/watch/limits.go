package watch

import "time"

const (
	// settle is how long changes are gathered before they are told: a save or
	// a checkout is many.
	settle = 75 * time.Millisecond
	// MaxBatch is how many changes one batch has; more are told as one change
	// of the root, after which a reader looks for itself.
	MaxBatch = 4096
	// MaxDirs is how many directories are watched in all. Each is a watch of
	// the kernel, of which a user has a limited number.
	MaxDirs = 32_768
	// MaxWatches is how many watches there may be.
	MaxWatches = 1024
	// MaxPatterns is how many patterns one list holds, MaxPattern the longest,
	// in bytes, and maxBraces how many alternatives in braces one may have:
	// each multiplies the work of a match.
	MaxPatterns = 256
	MaxPattern  = 1024
	maxBraces   = 4
)
