package client

import "time"

const (
	// maxCommands is how many commands wait for a plugin that does not take
	// them; whoever gives the next one waits.
	maxCommands = 64
	// closeBound is how long a conversation may take to close: the agent's
	// tools get some seconds to end by themselves.
	closeBound = 6 * time.Second
	// backendCloseBound is the same for everything a plugin runs, of which each
	// may take closeBound on a loaded machine.
	backendCloseBound = 30 * time.Second
)
