package zidane

import "time"

const (
	// protocolVersion is the version we speak, minProtocolVersion the oldest:
	// a release keeps the one before.
	protocolVersion    = 16
	minProtocolVersion = 15

	// readLimitBefore bounds a message in bytes until hello, readLimit after:
	// a prompt with attachments is the largest.
	readLimitBefore = 64 << 10
	readLimit       = 16 << 20

	// maxInFlight is how many requests of one client run at once. Prompts that
	// wait in a queue hold one each.
	maxInFlight = 512

	// maxAnswer is the largest answer in bytes; the client asks for less.
	maxAnswer = 8 << 20

	// pingEvery keeps proxies from cutting the connection.
	pingEvery = 30 * time.Second

	// The ring from which connections that are a little behind are fed, shared
	// by all of them. With the outbox it is what a slow client may be behind.
	ringFrames = 16384
	ringBytes  = 8 << 20
	// ringBehind is what the ring may grow to, in bytes of memory, while a
	// connection that still takes bytes is behind; one that takes none is cut.
	ringBehind = 32 << 20

	// pageTurns and maxPageTurns are the turns of a page of a transcript.
	pageTurns    = 200
	maxPageTurns = 1000

	// readTurns is how many turns are read from the store at once.
	readTurns = 200

	// countedChats is how many transcripts have the sizes of their turns kept
	// for paging, 4 bytes a turn.
	countedChats = 256

	// maxText bounds titles, ids, names and queries in bytes.
	maxText = 4 << 10

	// maxShownID is how much of an unknown id an error repeats, in bytes.
	maxShownID = 100

	// maxWindows bounds the windows of one presence report.
	maxWindows = 256

	// draftEvery is how often changes of a draft reach the other connections.
	draftEvery = 100 * time.Millisecond

	// settledKept is how many settled interactions are remembered, to tell a
	// late answer from a wrong one.
	settledKept = 4096

	// maxPrefs bounds stored preferences, settings and sidebar views in bytes.
	maxPrefs = 256 << 10

	// maxSpaces bounds the sidebar's spaces.
	maxSpaces = 256

	// searchedSessions and searchedTurns bound what search and history read:
	// the newest sessions and the newest turns of each.
	searchedSessions = 100
	searchedTurns    = 200

	// hitsByDefault and maxHits bound their answers.
	hitsByDefault = 50
	maxHits       = 500

	// snippetBytes is the length of a search hit's text.
	snippetBytes = 160

	// listedFolders bounds one listing of folders, searchedFolders the folders
	// a search by name looks at, searchDepth how deep it goes.
	listedFolders   = 2000
	searchedFolders = 20000
	searchDepth     = 6

	// hostInfoFor is how long a look at the machine's tools is good for.
	hostInfoFor = time.Minute

	// maxMedia is the most a media response carries, in bytes.
	maxMedia = 64 << 20

	// minTicket and maxTicket are the lengths of a media ticket in characters;
	// maxTickets how many one connection may register.
	minTicket  = 32
	maxTicket  = 256
	maxTickets = 64

	// usageDays is how many days usage.summary covers by default, maxUsageDays
	// at most; older ones are dropped.
	usageDays    = 30
	maxUsageDays = 400

	// usageEvery is how often the counts of tokens reach the disk.
	usageEvery = 2 * time.Second
)

// keptSignals is the log that resume reads: what the protocol promises. Bytes
// are those of the encoded signals.
var keptSignals = logLimits{signals: 2000, bytes: 4 << 20, total: 32 << 20}
