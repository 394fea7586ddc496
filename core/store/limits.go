package store

const (
	// MaxName is the longest key or name of a log, in bytes. Keys are kept in
	// the inner nodes of an index, where long ones cost every look-up.
	MaxName = 1 << 10
	// MaxValue is the largest record or value, in bytes. A batch is written
	// whole, so a larger one would hold up everybody's commit: larger data
	// are blobs.
	MaxValue = 16 << 20
)
