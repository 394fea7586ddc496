package terminal

import "time"

const (
	// MaxTerminals is how many terminals there are at once, those included
	// whose shell has ended.
	MaxTerminals = 64
	// DefaultCols and DefaultRows are the size of a terminal that names none,
	// in characters; MaxSize is the largest in either direction.
	DefaultCols = 80
	DefaultRows = 24
	MaxSize     = 2000
	// MaxTitle is the longest title, in bytes.
	MaxTitle = 200
	// MaxInput is what may wait for a shell that does not read, in bytes.
	MaxInput = 256 << 10

	// scrollback is how much output is kept of one terminal, in bytes: the
	// newest. A control character may need six bytes on a wire, and the whole
	// must fit into what may wait for one client. scrollbackOver is how much
	// more there may be before it is cut, so that not every byte moves the rest.
	scrollback     = 512 << 10
	scrollbackOver = 64 << 10
	// lineSearch is how far behind the place of a cut the next line may begin,
	// in bytes, for the cut to be made there.
	lineSearch = 4 << 10
	// maxParts is how many commands and stretches of other output are kept.
	maxParts = 1000

	// readSize is the most output of one event, in bytes; readWithin is how
	// long more is waited for once there is some, and readEvery how much time
	// a full one takes at least: 4 MiB/s is more than anybody reads, and keeps a
	// flood from taking the machine.
	readSize   = 64 << 10
	readWithin = 3 * time.Millisecond
	readEvery  = 16 * time.Millisecond
	// maxSequence is the longest escape sequence that is held back until it is
	// whole, in bytes.
	maxSequence = 16 << 10
	// maxLine is the longest command line that is told, in bytes.
	maxLine = 8 << 10
	// maxDir is the longest path of a working directory, in bytes.
	maxDir = 4096

	// endGrace is how long a shell may take to end after it was asked to.
	endGrace = time.Second
	// drainWithin is how long output is waited for after the shell ended and
	// what it started was killed.
	drainWithin = 2 * time.Second
)
