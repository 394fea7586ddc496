package ahp

import (
	"time"

	"github.com/polyhost/polyhost/core/terminal"
	"github.com/polyhost/polyhost/core/watch"
	"github.com/polyhost/polyhost/transports/outbox"
)

const (
	// githubHost is where repositories are whose pull requests are told and opened.
	githubHost = "github.com"
	// branchPrefix begins the names of branches that the host makes.
	branchPrefix = "agents/"
)

const (
	// handshakeLimit is the largest message before initialize, in bytes.
	handshakeLimit = 256 << 10
	// messageLimit is the largest message after it, in bytes: a prompt with
	// an attachment in base64.
	messageLimit = 32 << 20
	// outboxLimit is what may wait in the queue of one client, answers included,
	// in bytes.
	outboxLimit = outbox.DefaultLimit
	// queueBytes is how much of what the host says may wait for one client, in
	// bytes, until a client sets clientQueueBytes: what a client that is closed for
	// it missed is still kept for replay. One part in roomShare waits in its own
	// queue, the rest in the journal.
	queueBytes = 16 << 20
	roomShare  = 4
	// maxInFlight is how many requests of one connection run at once: an
	// editor that opens a project subscribes to all its sessions in one go.
	maxInFlight = 256
	// handshakeWithin is how long a client may take to initialize.
	handshakeWithin = 30 * time.Second

	// journalFrames and journalBytes bound what is kept for replay: the
	// newest actions of the whole host. A client may set replayBytes instead of
	// the second.
	journalFrames = 16384 // a power of two
	journalBytes  = 32 << 20
	// journalBehind is what it may grow to, in bytes of memory, while a connection
	// that still takes bytes is behind; one that takes none is cut. entryCost is
	// charged for each frame: its slot in the ring, which is at most half empty.
	journalBehind = 64 << 20
	entryCost     = 128
	// leastBytes and mostBytes are what clients may set clientQueueBytes and
	// replayBytes to.
	leastBytes = 1 << 20
	mostBytes  = 256 << 20
	// maxSetting is the longest value of one of the root's settings, and
	// maxSettings of all that are kept, in bytes.
	maxSetting  = 256 << 10
	maxSettings = 1 << 20
	// maxAnnotations bounds the annotations of one session, in bytes, and
	// annotationsPage is how many sessions' are read at once at the start.
	maxAnnotations  = 1 << 20
	annotationsPage = 64
	// wordsWithin is how long a model or an agent may take to find the words of a
	// change until a client sets changeWordsTimeoutMs, and mostWords the most that may
	// be set.
	wordsWithin = 2 * time.Minute
	mostWords   = time.Hour
	// maxWordsTitle is the longest title that is found, in characters. maxWordsFiles
	// is how many changed files are named to whoever finds it, maxWordsDiff how much
	// of the difference is shown, and maxSaid how much of what the session said, the
	// newest, in bytes.
	maxWordsTitle = 72
	maxWordsFiles = 200
	maxWordsDiff  = 96 << 10
	maxSaid       = 32 << 10
	// maxShellInit bounds the scripts of a session's shells together, in bytes as they
	// are sent, and maxShells how many there are: they go to the agent with each prompt.
	maxShellInit = 64 << 10
	maxShells    = 16
	// maxRefusal is the longest reason of a refused push of settings, in bytes.
	maxRefusal = 512

	// seqBlock is how many sequence numbers are reserved on disk at once, so
	// that numbers never go back when the gateway starts again.
	seqBlock = 1 << 20

	// largeAnswer is the size from which an answer waits for room in the queue
	// instead of ending the connection, in bytes: the content of files.
	largeAnswer = 256 << 10

	// maxResourceURI is the longest URI of a resource, in bytes: every byte of
	// the longest path may be escaped.
	maxResourceURI = 16 << 10
	// maxSelection is the longest passage that a side chat is opened on, in bytes.
	maxSelection = 64 << 10
	// handoverWithin is how long a session waits with telling of a chat that came
	// for the other one to tell that it went.
	handoverWithin = 10 * time.Second
	// maxWatches is how many resource watches one client may have.
	maxWatches = 128
	// maxWatchText is how much a client may say at once of a watch, in bytes:
	// what it is to be of, or a batch of changes to what the client has.
	maxWatchText = 1 << 20
	// ownerWithin is how long a client may take to answer for its resource; it
	// may ask a person.
	ownerWithin = 60 * time.Second

	// trustWithin is how long a person may take to say whether a folder is trusted.
	trustWithin = 10 * time.Minute
	// maxRelays is how many relays into dev containers one connection may have.
	maxRelays = 8
	// maxRelayID is the longest name of one, in bytes.
	maxRelayID = 256
	// relayRoom is how much may wait for a client, in bytes, when something from a
	// relay is queued for it; the relay waits for that.
	relayRoom = 1 << 20

	// maxSubscriptions is how many channels one connection may watch.
	maxSubscriptions = 1024
	// maxChannelURI is the longest name of a channel, in bytes.
	maxChannelURI = 2048
	// maxClientID is the longest id of a client, in bytes.
	maxClientID = 256
	// maxVersions is how many versions an offer may hold.
	maxVersions = 64

	// clientGrace is how long the tools and unused sessions of a client that
	// dropped wait for its return.
	clientGrace = 30 * time.Second
	// clientMemory is how long a client that left may still reconnect.
	clientMemory = time.Hour
	// maxClients is how many clients are remembered, the newest.
	maxClients = 4096
	// sweepEvery is how often departed clients are looked at.
	sweepEvery = 5 * time.Second
	// leaveWithin bounds what is done for a client that left.
	leaveWithin = 10 * time.Second

	// expectFor is how long a dispatched action waits for its event, to give
	// it its origin.
	expectFor = 30 * time.Second
	// maxExpected is how many may wait in one session.
	maxExpected = 4096

	// snapshotTurns is how many finished turns a snapshot of a chat holds
	// when the client does not say; fetchTurns brings the others.
	snapshotTurns = 50
	// maxViewTurns is how many a client may ask for.
	maxViewTurns = 500

	// outputEvery is how often the output of a running call is shown anew,
	// and outputTail how much of its end, in bytes: the protocol has no way
	// to append.
	outputEvery = 150 * time.Millisecond
	outputTail  = 32 << 10

	// previewBytes is how much of a command's output its result shows, the end.
	previewBytes = 4 << 10

	// maxCompletions is how many items one completion answer holds.
	maxCompletions = 50
	// maxChatCompletions is how many of them are chats.
	maxChatCompletions = 20
	// maxChatText is how much of an attached chat the agent is given, in bytes,
	// the newest.
	maxChatText = 256 << 10
	// walkFiles is how many files of the working directories are looked at for a
	// completion, walkWithin for how long.
	walkFiles  = 5000
	walkWithin = 300 * time.Millisecond

	// unchangedTries is how often an action that seems to change nothing is
	// looked at again because more happened meanwhile: enough for all but a
	// session that never rests.
	unchangedTries = 100

	// maxPage is how many sessions one page of the list holds at most.
	maxPage = 1000
	// maxPlugins is how many plugins a client may bring to a session, maxPluginID
	// and maxPluginURI how long their ids, names and URIs are, in bytes.
	maxPlugins   = 64
	maxPluginID  = 1 << 10
	maxPluginURI = 4 << 10
	// maxSentence is the longest reason why a plugin is not there, in bytes.
	maxSentence = 500
	// maxPluginCopies is how many copies of plugins may be used, or wait to be
	// made, at once, pluginShare how many of one client.
	maxPluginCopies = 256
	pluginShare     = maxPluginCopies / 2
	// copiesOfOne is how many plugins of one client are copied at a time: fewer
	// than core/addon makes at once, as a client may take its time to answer.
	copiesOfOne = 2
	// maxActiveClient bounds what a client says of itself in a session.
	maxActiveClient = 1 << 20

	// runsShown is how many runs the entry of an automation has, and by how many
	// it grows when a client asks for more.
	runsShown = 20

	// maxChangesets is how many changesets are followed at once.
	maxChangesets = 256
	// changesSettle is how long what may have changed files is gathered before
	// a changeset is read again.
	changesSettle = 150 * time.Millisecond
	// changesUnwatched is how long after its last subscription a changeset is
	// looked at for watchers.
	changesUnwatched = time.Minute
	// maxFileActions is how many actions of single files say a change before
	// the whole list does.
	maxFileActions = 100
	// maxLent is how many tokens one client may have lent before it brings one
	// more for an MCP server, maxToken the longest, in bytes, and maxLending the
	// longest that it may be good for.
	maxLent    = 256
	maxToken   = 4096
	maxLending = 365 * 24 * time.Hour
	// maxSubjects is how many commits the words of a pull request are made of,
	// the newest, and maxSlug how much of a session's title is in the name of its
	// branch, in bytes.
	maxSubjects = 50
	maxSlug     = 40
	// pullsAnew is after how long it is asked again how the pull request of a
	// branch stands, beside the end of a turn.
	pullsAnew = 5 * time.Minute
	// countApart is of how many files the lines are counted only once the files
	// were told: it takes longer than to find them.
	countApart = 500
	// factsListed is of how many sessions of a list the directories are looked at
	// that were not yet.
	factsListed = 50
	// clientDirs is up to how many directories clients may watch all together;
	// the rest is for what the host itself looks after. dirsShare is how many one
	// client may have of them, counted anew in each of its watches.
	clientDirs = watch.MaxDirs / 4 * 3
	dirsShare  = clientDirs / 2
	// maxTerminals is how many terminals one client may have: half of what the
	// host has for all.
	maxTerminals = terminal.MaxTerminals / 2
	// maxWorktrees is how many sessions may have working trees of their own;
	// handleMemory is how long a window may not name one that it has a handle of.
	maxWorktrees = 256
	handleMemory = 24 * time.Hour
	// branchesListed is how many branches the schema of a session lists.
	branchesListed = 20
	// maxFacts is of how many directories it is known how their working trees
	// stand; factsSettle is how long what may have changed them is gathered.
	maxFacts    = 512
	factsSettle = 300 * time.Millisecond
	// maxChangesetTurns is how many turns of a chat the changes of a session
	// are gathered from, the newest.
	maxChangesetTurns = 1000

	// maxDiagnosedURL is the longest address that is looked up and fetched for
	// the window's diagnostics, and maxDiagnosedBody how much of the answer is
	// told, in bytes; lookUpWithin and diagnoseWithin bound the time.
	maxDiagnosedURL  = 2048
	maxDiagnosedBody = 64 << 10
	lookUpWithin     = 5 * time.Second
	diagnoseWithin   = 20 * time.Second
	// maxBundles is how many collections of logs lie on the disk, bundleFor how
	// long each, bundlePiece how much of one is read at once, and maxRecord how
	// much of an agent's record goes into it, the end, in bytes.
	maxBundles  = 8
	bundleFor   = 10 * time.Minute
	bundlePiece = 1 << 20
	maxRecord   = 64 << 20

	// telemetryUnwatched is how long telemetry that nobody hears is made.
	telemetryUnwatched = 30 * time.Second

	// terminalUnread is after how many bytes of a terminal's output it is
	// looked whether anybody watches, and terminalUnwatched how long it goes on
	// being said for those who may come back.
	terminalUnread    = 256 << 10
	terminalUnwatched = time.Minute
)
