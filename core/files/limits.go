package files

const (
	// MaxRead is the largest file that is read, in bytes: as base64 it still
	// fits into one message of every front.
	MaxRead = 16 << 20
	// MaxShift is the most bytes behind a place in a file that a write there
	// moves; they are held in memory.
	MaxShift = 64 << 20
	// MaxEntries is how many entries a directory may have to be listed.
	MaxEntries = 50_000
	// MaxPath is the longest path, in bytes; the kernel's own bound.
	MaxPath = 4096
	// MaxCopy is how many files and directories one copy may hold.
	MaxCopy = 100_000
	// copyStep is how much of a file is copied before a look whether anybody
	// still wants it, in bytes.
	copyStep = 32 << 20
	// stripes is how many writes to different files may run at once.
	stripes = 64
)
