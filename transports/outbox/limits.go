package outbox

const (
	// DefaultLimit is the bound of one connection's queue in bytes: some
	// twenty thousand text deltas, or one large snapshot. A peer that is
	// further behind than this is cheaper to serve from the log.
	DefaultLimit = 4 << 20

	// MaxBatch is how many bytes of frames the writer is given at once. It
	// fills a socket buffer well and keeps the memory that a stalled write
	// pins small.
	MaxBatch = 64 << 10

	// frameOverhead is charged for each frame on top of its payload, in bytes:
	// its slot in a block, rounded up. Without it a flood of tiny frames would
	// cost many times the bound.
	frameOverhead = 32

	// blockFrames is how many frames one piece of a queue holds.
	blockFrames = 32
)
