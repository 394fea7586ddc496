package pi

import "time"

const (
	// startWait is how long pi may take until it answers: a Node program that
	// compiles on a loaded machine.
	startWait = 60 * time.Second

	// commandWait is how long it may take to answer a command, its start
	// included.
	commandWait = startWait

	// stopWait is how long it may take to end a run after an abort; then its
	// process is ended.
	stopWait = 3 * time.Second

	// retryWait is how long after a failed run the news of another try may
	// take: pi says so right away.
	retryWait = time.Second

	// maxSteers is how many steering messages may wait in a turn.
	maxSteers = 64

	// maxError is the longest error text in bytes.
	maxError = 4 << 10

	// maxTail is how many bytes of a conversation's file are read for its last
	// entry.
	maxTail = 1 << 20

	// maxLine is the longest line, in bytes, of a kept conversation that is
	// read; maxKept is the largest file of one.
	maxLine = 16 << 20
	maxKept = 256 << 20

	// maxConversations is how many kept conversations are looked at.
	maxConversations = 10_000

	// pageConversations and pageTurns are a page when none is asked for.
	pageConversations = 100
	pageTurns         = 50

	// headLines is how many lines of a kept conversation are read for the list.
	headLines = 50

	// maxEdited is the largest file, in bytes, in which an edit is shown.
	maxEdited = 4 << 20

	// maxImage is the largest picture, in bytes, that is read from a file.
	maxImage = 16 << 20

	// maxTitle is the most of a prompt, in characters, that is a title.
	maxTitle = 80
	// maxParts is how many open parts of one message are remembered.
	maxParts = 1000
)
