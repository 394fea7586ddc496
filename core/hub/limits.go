package hub

const (
	// TailEvents is how many events a session keeps in memory for
	// subscribers that are a little behind.
	TailEvents = 4096
	// TailBytes bounds the same tail in bytes.
	TailBytes = 2 << 20
	// BatchEvents is the most one Next returns from the tail.
	BatchEvents = 512
	// BatchBytes is about the most one Next reads from the log.
	BatchBytes = 256 << 10
)
