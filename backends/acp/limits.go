package acp

import "time"

const (
	// shakeBound is how long initialize and the opening of a session may take:
	// the slowest agent needs a minute on a loaded machine.
	shakeBound = 3 * time.Minute
	// probeBound is how long it may take to start the agent and read its list
	// of conversations.
	probeBound = 90 * time.Second
	// commandsBound is how long Info waits for the slash commands, which come
	// after the session.
	commandsBound = 2 * time.Second
	// configBound is how long a change of model or mode may take.
	configBound = 20 * time.Second
	// cancelBound is how long a cancelled turn may go on before the agent is
	// stopped; with strayBound it leaves a running command 5 seconds.
	cancelBound = 4 * time.Second
	// strayBound is how long what a cancelled turn's command left behind gets
	// to end before it is killed.
	strayBound = 300 * time.Millisecond
	// quiet and quietBound: a replayed history is over when nothing came for
	// the one, or at the latest after the other.
	quiet      = 400 * time.Millisecond
	quietBound = 5 * time.Second

	// maxFile is the largest file, in bytes, that an agent may read or write
	// through the gateway.
	maxFile = 16 << 20
	// maxCalls is how many tool calls of one turn are remembered.
	maxCalls = 4096
	// maxPending is how many requests of an agent may be open at once.
	maxPending = 256
	// maxText is the longest text of a tool call, in bytes, that is looked at.
	maxText = 1 << 20
	// maxPages is how many pages of an agent's session list are read,
	// keepListed after how many conversations it is enough.
	maxPages   = 16
	keepListed = 1000
	// listEvery is how often a process is started for the list at most,
	// listAge how old a list may be if nothing tells whether it has changed.
	listEvery = 10 * time.Minute
	listAge   = time.Hour
	// pageLimit is how many past conversations or turns a page has when
	// nobody said.
	pageLimit = 50
	// keepTurns is how many turns of a replayed history are kept.
	keepTurns = 2000
	// minuteSlack is added to the end of the minute in which a conversation
	// cannot be loaded.
	minuteSlack = 2 * time.Second
)
