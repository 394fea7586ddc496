package outbox

const (
	// StalledCost is what a connection whose peer takes nothing may cost, in
	// bytes of memory.
	StalledCost = 4 << 20

	// DefaultLimit is the bound of one connection's queue in bytes of frames:
	// some fifteen thousand text deltas, or one large snapshot. A peer that is
	// further behind than this is cheaper to serve from the log. The rest of the
	// cost is what allocations of frames round up to and chunks leave unused.
	DefaultLimit = StalledCost - StalledCost/8

	// MaxBatch is how many bytes of frames the writer is given at once. It
	// fills a socket buffer well and keeps the memory that a stalled write
	// pins small.
	MaxBatch = 64 << 10

	// runOverhead is charged for each run on top of its bytes: its slot in a
	// block. Without it a flood of tiny frames would cost many times the bound.
	runOverhead = 32

	// blockRuns is how many runs one piece of a queue holds.
	blockRuns = 32

	// firstChunk and chunkSize are the sizes of a tape's chunks in bytes: the
	// first is small because most streams are idle, and they double up to
	// several batches, so that few runs end early with their chunk.
	firstChunk = 1 << 10
	chunkSize  = 256 << 10

	// ownSize is the length of a frame in bytes from which it has memory of its
	// own: in a chunk it would leave too much of the one before unused.
	ownSize = 32 << 10

	// maxHeader is the longest header of a frame, in bytes.
	maxHeader = 16
)
