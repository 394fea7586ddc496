package settings

import "time"

const (
	// DefaultPortBase is the first port of a gateway that was told none; it
	// and the ports after it are registered for nothing.
	DefaultPortBase = 7460
	// maxPortBase leaves room for the ports that follow.
	maxPortBase = 65_500
	// maxDuration bounds every time that can be configured.
	maxDuration = 30 * 24 * time.Hour
	// maxHistory is how many conversations of an agent can be asked for.
	maxHistory = 10_000
	// maxFile is the largest config file that is read, in bytes.
	maxFile = 1 << 20
	// maxAgentName is the length of an agent's name, in bytes, as for plugins.
	maxAgentName = 32
)
