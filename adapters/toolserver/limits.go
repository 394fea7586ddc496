package toolserver

import "time"

const (
	// maxBody is the largest request of an agent, in bytes.
	maxBody = 8 << 20
	// maxCalls is how many calls of one conversation run at once.
	maxCalls = 64
	// keepAlive is how often an agent's stream is asked whether it is there.
	keepAlive = 60 * time.Second
	// idleAfter is how long an agent's MCP session is kept without a request.
	// A conversation that goes on begins a new one.
	idleAfter = 24 * time.Hour
)
