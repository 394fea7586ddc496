package supervisor

import "time"

const (
	// startBound is how long a plugin may take from its start to the handshake.
	startBound = 10 * time.Second
	// askBound is how long a plugin may take to end once it was asked to.
	askBound = 2 * time.Second
	// termGrace is how long it may take after TERM, before KILL.
	termGrace = 3 * time.Second
	// healthEvery and healthBound: how often a plugin is asked whether it is
	// well, and how long it may take to say so.
	// With healthMisses it takes 20 s at most to notice one that hangs.
	healthEvery = 5 * time.Second
	healthBound = 5 * time.Second
	// healthMisses in a row are taken for a hung plugin, which is killed.
	healthMisses = 3
	// closePatience is how long a plugin may leave a close unanswered before it
	// is asked whether it is well, and doubtBound how long it may take to say
	// so: less than healthBound, because it has failed once already and
	// somebody waits.
	closePatience = time.Second
	doubtBound    = 3 * time.Second
	// backoffFirst is the wait before a start after a death; it doubles with
	// each death in a row up to backoffMost.
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 30 * time.Second
	// stableAfter is the life after which a death is not one in a row.
	stableAfter = time.Minute
	// obituaryBound is how long a conversation waits to learn how its plugin died.
	obituaryBound = time.Second
	// maxLog is the size, in bytes, of a plugin's log; one older file is kept.
	maxLog = 1 << 20
	// drainBound is how long a dead plugin's output is read, in case one of
	// its children holds the pipe.
	drainBound = 250 * time.Millisecond
	// maxSocketDir is the longest path, in bytes, that leaves room for a
	// plugin's socket: the system takes 108 for the whole.
	maxSocketDir = 60
	// maxInstances bounds the list of earlier instances that could not be
	// cleared away.
	maxInstances = 100
)
