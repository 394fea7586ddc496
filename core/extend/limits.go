package extend

const (
	// maxSessions is how many sessions are remembered; a session that is not
	// shows what its agent has everywhere.
	maxSessions = 2000
	// MaxThings is how many commands, how many subagents and how many servers of
	// one session are kept.
	MaxThings = 1000
	// MaxName and MaxText are the longest name and the longest description of
	// one, in bytes.
	MaxName = 256
	MaxText = 500
	// MaxDecisions is how many decisions are kept in all.
	MaxDecisions = 5000
)
