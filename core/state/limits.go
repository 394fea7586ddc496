package state

// Limits bound what a State keeps of a chat's finished turns. The newest one
// is always kept.
type Limits struct {
	// Turns is how many finished turns a chat keeps in memory.
	Turns int
	// Bytes is the size of their texts at most.
	Bytes int
}

// DefaultLimits serve an editor's first page without a read from disk.
var DefaultLimits = Limits{Turns: 50, Bytes: 1 << 20}

// ActiveOnly keeps running turns, and the last one that ended, which may be
// resumed: for a projection, which has no use for what is over.
var ActiveOnly = Limits{Turns: 1, Bytes: 0}
