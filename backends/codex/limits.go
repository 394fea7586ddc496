package codex

import "time"

const (
	// startBound is how long the program may take from its start to the
	// answer to initialize: half a second when nothing else runs.
	startBound = 40 * time.Second
	// callBound is how long an answer to a request may take.
	callBound = 45 * time.Second
	// probeBound is how long Info may take.
	probeBound = 25 * time.Second
	// interruptBound is how long a turn may go on after an interrupt; then
	// the process is ended.
	interruptBound = 4 * time.Second
	// cleanBound is how long the program may take to end what commands left
	// running; then it is killed from here.
	cleanBound = 500 * time.Millisecond

	// commandsEvery is how often the program is asked whether the commands
	// that a turn left running still run: far below the shortest time after
	// which an idle agent is stopped.
	commandsEvery = 15 * time.Second

	// readerIdle is how long the process that reads past conversations is
	// kept without a question.
	readerIdle = 20 * time.Second

	// maxPending is the most requests of the program that wait for an answer.
	maxPending = 256
	// maxOpenItems is the most items of a turn that are open at once.
	maxOpenItems = 1024
	// maxChildren is the most subagents followed in one turn.
	maxChildren = 256
	// maxEdits is the most files of one change that are described.
	maxEdits = 200
	// maxNotice is the longest text of a notice, or about a skill, in bytes.
	maxNotice = 4 << 10
	// maxServers is the most MCP servers that are told of.
	maxServers = 200
	// maxSkills is the most skills that are told of, maxSkillName the longest name of
	// one in bytes, and skillsBound how long the program may take to find them.
	maxSkills    = 500
	maxSkillName = 200
	skillsBound  = 10 * time.Second
	// maxModels is the most models that are listed.
	maxModels = 200
	// listPage and maxListPage are the default and the largest number of past
	// conversations on a page, historyPage and maxHistoryPage those of turns.
	listPage       = 50
	maxListPage    = 200
	historyPage    = 20
	maxHistoryPage = 100
	// maxHistoryFrames is the most frames told of one past turn.
	maxHistoryFrames = 5000

	// rateWarn and rateHigh are the percentages of a rate limit whose
	// crossing is told.
	rateWarn, rateHigh = 80, 95
)
