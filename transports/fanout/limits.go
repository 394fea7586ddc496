package fanout

import "time"

const (
	// DefaultFrames is how many frames a topic keeps for those that are behind
	// when Retain does not say. A few seconds of a fast agent.
	DefaultFrames = 4096

	// DefaultBytes is how many bytes of frames a topic keeps when Retain does
	// not say. It matches the queue of one connection: a peer that is further
	// behind than this is cheaper to serve from the log.
	DefaultBytes = 4 << 20

	// resumeBelow is the fill of a sink, in bytes, under which its feeder adds
	// the next piece: one batch of a writer, so that the peer never waits for
	// the feeder and the feeder does not wake for every frame.
	resumeBelow = 64 << 10

	// feedBytes is about how many bytes of retained frames a feeder hands over
	// before it lets the publisher and the others have the lock.
	feedBytes = 64 << 10

	// StallAfter is how long a sink that is behind may take nothing, however fast
	// its topic is, until nothing more is kept for it than for others: at 50,000
	// deltas a second what is kept anyway and its queue last longer.
	StallAfter = 500 * time.Millisecond

	// frameCost is charged for each frame that is kept for those behind, on top
	// of its bytes: its slot in the ring, which is at most half empty.
	frameCost = 64

	// firstSlots is the size of the ring when the first frame is kept, in frames.
	firstSlots = 16
)
