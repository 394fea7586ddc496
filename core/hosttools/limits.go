package hosttools

import "time"

const (
	// undoWithin is how long it may take to take away again what a call has made that
	// fails after that.
	undoWithin = 10 * time.Second
	// maxInput is the most bytes of the arguments of a call.
	maxInput = 1 << 20
	// maxDepth is how deep arguments nest.
	maxDepth = 16
	// maxOutput is about how much text a call gives back, in bytes: an agent has
	// to read it.
	maxOutput = 48 << 10
	// maxListed is how many sessions a list has.
	maxListed = 50
	// maxTurns is how many turns a context has, usualTurns unless more are asked
	// for.
	maxTurns   = 50
	usualTurns = 10
	// gist is how much of a message or an answer a summary has, in bytes,
	// maxReply how much of one the longer forms have, maxCallInput how much of
	// the input of a call, maxCalls how many calls of a turn.
	gist         = 300
	maxReply     = 8 << 10
	maxCallInput = 1 << 10
	maxCalls     = 40
	// maxTitle is the longest title, in characters.
	maxTitle = 200
	// maxArtifacts is how many artifacts and references a session has, maxItems how
	// many are recorded at once; together they stay below what the host keeps of
	// one fact. maxLabel is in characters, maxAddress and maxHash in bytes.
	maxArtifacts = 100
	maxItems     = 20
	maxLabel     = 200
	maxAddress   = 1 << 10
	maxHash      = 128
	// maxComment is the longest remark, in bytes.
	maxComment = 16 << 10
	// maxEntries is how many names of a folder are told.
	maxEntries = 500
	// maxSpawned is how many sessions an agent, and the agents of those, may have
	// made that are still there; each may run a program.
	maxSpawned = 16
	// maxChats is how many chats a session may have for an agent to add one.
	maxChats = 16
	// maxHops is how many times in a row agents may set each other to work
	// without a person, maxBegun how many times in all because of one message;
	// maxHopped is how many turns it is known of.
	maxHops   = 6
	maxBegun  = 100
	maxHopped = 4096
)
