package git

import "time"

const (
	// MaxFiles is how many changed files one status has; more are cut off and
	// said to be.
	MaxFiles = 10_000
	// maxList is the most output of a command that lists files, in bytes: the
	// files of MaxFiles with long paths.
	maxList = 8 << 20
	// maxAnswer is the most output of any other command, in bytes.
	maxAnswer = 64 << 10
	// maxWords is how much is told of what git said when it failed, in bytes.
	maxWords = 1000
	// MaxBlob is the largest content of a file that is given, in bytes.
	MaxBlob = 16 << 20
	// maxCount is the largest new file whose lines are counted, in bytes, and
	// maxCounted how much is read of all new files of one status.
	maxCount   = 1 << 20
	maxCounted = 64 << 20
	// settledAfter is how old a file must be for its stamp to mean its content:
	// longer than the ticks of a file system's clock.
	settledAfter = 50 * time.Millisecond
	// maxPathspec is how long the names of files on one command line may be, in
	// bytes.
	maxPathspec = 64 << 10
	// MaxRef is the longest name of a branch that is taken, in bytes.
	MaxRef = 240
	// maxRemotes is how many remotes are looked at.
	maxRemotes = 64
	// maxPatterns is how many patterns say what is brought into a new working
	// tree, maxPattern the longest, in bytes; maxCopies is how many files and
	// folders are brought, maxCopied how much is copied, in bytes.
	maxPatterns = 64
	maxPattern  = 256
	maxCopies   = 2000
	maxCopied   = 256 << 20
	// MaxMessage is the longest message of a commit, in bytes.
	MaxMessage = 64 << 10

	// readWithin is how long a command that only looks may take.
	readWithin = 30 * time.Second
	// writeWithin is how long one that writes may take: hooks run in it.
	writeWithin = 5 * time.Minute
	// endWithin is how long a command that must stop gets before it is killed:
	// it takes its lock files away.
	endWithin = time.Second
	// drainWithin is how long output is read after the command ended.
	drainWithin = time.Second
	// maxRunning is how many commands run at once.
	maxRunning = 4
	// stripes is how many repositories are written to at once.
	stripes = 16
)
