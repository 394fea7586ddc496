package host

import "time"

// The limits and times of the host. Durations that an operator may change are
// fields of Options, with these as defaults.
const (
	// DefaultApprovalTimeout is how long an approval waits for a person.
	DefaultApprovalTimeout = 300 * time.Second
	// DefaultQuestionTimeout is how long a question waits for a person.
	DefaultQuestionTimeout = 600 * time.Second
	// DefaultIdleAfter is how long a session without a turn stays in memory.
	DefaultIdleAfter = 10 * time.Minute
	// DefaultAgentIdleAfter is how long an agent's process is kept without a
	// turn. The next prompt resumes its conversation in a new one.
	DefaultAgentIdleAfter = 15 * time.Minute
	// DefaultGrace is what running turns get when the gateway stops.
	DefaultGrace = 5 * time.Second
	// CancelWithin is how long an agent may go on after an interrupt before
	// its conversation is closed. What a driver and its supervisor do about a
	// close that is not answered fits into the rest of ten seconds.
	CancelWithin = 4 * time.Second
	// PluginsWithin is how long an agent that starts waits for the plugins that are
	// still being copied; it then begins without them.
	PluginsWithin = 10 * time.Second
	// OpenWithin is how long an agent may take to start.
	OpenWithin = 60 * time.Second
	// ClosingWithin is how long a chat's next agent waits for the process of
	// the one before to end.
	ClosingWithin = 10 * time.Second
	// ProbeWithin is how long an agent may take to say what it is.
	ProbeWithin = 30 * time.Second

	// healthWithin is how long a look at the health waits for the disk.
	healthWithin = 2 * time.Second

	// DefaultPast is how many past conversations of each agent are listed.
	DefaultPast = 200
	// PastAge is how old the last word of a listed conversation may be.
	PastAge = 90 * 24 * time.Hour
	// PastEvery is how often the agents are asked for their conversations,
	// PastWithin how long one may take to answer.
	PastEvery  = 5 * time.Minute
	PastWithin = 60 * time.Second
	// ImportWithin is how long the history of a conversation may take to be
	// read, MaxImport the most turns of it that are.
	ImportWithin = 60 * time.Second
	MaxImport    = 20_000
	// pastPage is how many conversations, importPage how many turns are
	// asked for at once.
	pastPage   = 100
	importPage = 50

	// ReprobeFirst is when an agent that could not say what it is is asked
	// again, ReprobeMost the longest pause between later attempts.
	ReprobeFirst = 30 * time.Second
	ReprobeMost  = 10 * time.Minute

	// MaxPrompt is the most text of one message, in bytes.
	MaxPrompt = 4 << 20
	// MaxAnswer is how much of the answer to a question is taken, in bytes.
	MaxAnswer = 64 << 10
	// MaxAttachment is the most bytes of one attachment.
	MaxAttachment = 20 << 20
	// MaxAttachments is the most attachments of one message.
	MaxAttachments = 32
	// InlineAttachment is the size from which an attachment is a blob.
	InlineAttachment = 64 << 10
	// MaxQueue is the most messages that wait in one chat.
	MaxQueue = 100
	// MaxTitle is the longest title, in characters.
	MaxTitle = 200
	// MaxDraft is the most text of a draft, in bytes.
	MaxDraft = 1 << 20
	// MaxPartText is the most text kept of one text or reasoning part.
	MaxPartText = 4 << 20
	// MaxToolOutput is the most output kept of one call: KeepHead from its
	// beginning and the rest from its end.
	MaxToolOutput = 1 << 20
	KeepHead      = 768 << 10
	// MaxEditText is the largest file text kept before or after an edit.
	MaxEditText = 256 << 10
	// MaxEdits is how many file edits of one call are kept, MaxEditsText the
	// size of their texts together.
	MaxEdits     = 200
	MaxEditsText = 2 << 20
	// MaxTurnRecord is the largest stored form of a finished turn; a larger
	// one is stored with its outputs and texts cut to MaxCutText each.
	MaxTurnRecord = 12 << 20
	MaxCutText    = 16 << 10
	// MaxWork is how much an agent is shown to go on with at once.
	MaxWork = 200
	// MaxChats is the most chats of one session, subagents included.
	MaxChats = 1000
	// MaxTools is the most tools one client may offer, MaxToolBytes their size.
	MaxTools     = 256
	MaxToolBytes = 1 << 20
	// LinkWithin is how long a call that comes over MCP waits for the agent to
	// show it as a call of its turn; it is shown as one of its own then.
	LinkWithin = time.Second
	// OwnToolWithin is how long a tool of the gateway's own may take.
	OwnToolWithin = 60 * time.Second
	// MaxMeta bounds one value of a session's front facts, in bytes.
	MaxMeta = 256 << 10
	// MaxDirs is the most working directories of one session.
	MaxDirs = 32
	// maxToldCommands is how many of a person's own commands an agent is told
	// of with its next prompt, the newest, and maxToldOutput how much of the
	// output of each, in bytes, from its end.
	maxToldCommands = 8
	maxToldOutput   = 16 << 10
	// maxBrief is how much of each thing said in a turn a side chat's agent is
	// told, in bytes.
	maxBrief = 64 << 10
	// MaxName bounds ids and names that clients choose, in bytes.
	MaxName = 1024
	// MaxKeys is how many idempotency keys a session remembers.
	MaxKeys = 1024
	// MaxProgress is the longest line on what a call does, in bytes.
	MaxProgress = 500
	// MaxSettled is how many settled interactions a session remembers, to
	// tell a late answer from a wrong one.
	MaxSettled = 1024

	// activityEvery is how long what a session does is gathered before the list is
	// told of it alone: whoever looks at a list does not follow quicker calls.
	activityEvery = time.Second
	// flushEvery is how long deltas are gathered; the store may let them wait
	// for its own window after that.
	flushEvery = 25 * time.Millisecond
	// flushBytes is how much delta text is gathered at most.
	flushBytes = 64 << 10
	// snapshotEvery is how many log records may follow a snapshot.
	snapshotEvery = 1000
	// reserveSeqs is how many sequence numbers beyond the stored ones a
	// running turn may use before a crash could give them out again.
	reserveSeqs = 512
	// resumeAtOnce is how many sessions with waiting messages are worked on at
	// the same time after a start: each may run an agent.
	resumeAtOnce = 8
	// inbox is how many commands and frame batches wait for a session.
	inbox = 64
	// maxTickets is how many commits of a session are on their way to the
	// disk; the next one waits.
	maxTickets = 1024
	// maxCommands is how many commands may wait for an agent that does not
	// take them; one more means that it is stuck.
	maxCommands = 256
	// maxGone is how many turns and parts the event of a truncation lists; of
	// more it says only that they are gone.
	maxGone = 2000
	// maxLastPrompt cuts the prompt that lists show, in bytes.
	maxLastPrompt = 500
	// pageKeys is how many keys one scan takes: a page of the list of sessions
	// at the start, or of what goes with a session.
	pageKeys = 1000
	// pageBytes is how much of a log one read takes.
	pageBytes = 1 << 20
)
