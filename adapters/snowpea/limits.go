package snowpea

import (
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

const (
	// handshakeLimit is the largest message in bytes before hello succeeded.
	handshakeLimit = 64 << 10

	// messageLimit is the largest message in bytes after it: an attachment of
	// attachmentLimit in base64 must fit.
	messageLimit = 32 << 20

	// attachmentLimit is the largest attachment in bytes, decoded.
	attachmentLimit = 20 << 20

	// maxAttachments is how many a prompt may bring.
	maxAttachments = 64

	// outboxLimit bounds in bytes what waits for one connection.
	outboxLimit = outbox.DefaultLimit

	// answerReserve is the part of the outbox in bytes that session events
	// leave free, so that answers and notifications get through to a client
	// that is behind on a stream.
	answerReserve = 512 << 10

	// replayInAnswer is how many bytes of events one session.resume answer
	// brings; the rest follows as session.event. It fits the outbox.
	replayInAnswer = 3 << 20

	// feedBelow is the fill of an outbox in bytes under which a replay adds
	// more; feedBatch is about how much it adds at once.
	feedBelow = 256 << 10
	feedBatch = 256 << 10

	// retainFrames and retainBytes bound the ring of one chat: what a client
	// that lost its socket for a moment asks for.
	retainFrames = 4096
	retainBytes  = 2 << 20

	// resumeGap is how long live events wait behind the answer to a resume.
	// The protocol's own client handles what comes in one read before the
	// answer's promise, and would take them for older than the replay.
	resumeGap = 10 * time.Millisecond

	// resumeDrain bounds the wait for the answer itself to leave.
	resumeDrain = 250 * time.Millisecond

	// markEvery is how many core events lie between two stored marks of the
	// numbering: a replay reads at most this many events too many.
	markEvery = 4096

	// callTimeout is how long a client may take to answer a call that has no
	// time-out of its own.
	callTimeout = 60 * time.Second

	// defaultApprovalSec and defaultQuestionSec are the protocol's defaults
	// for how long a person may take, in seconds.
	defaultApprovalSec = 300
	defaultQuestionSec = 600

	// toolTimeout is how long a client may take over a host tool that names
	// no time-out; every progress restarts it.
	toolTimeout = 120 * time.Second

	// stopWait bounds how long an answer waits for the interrupt before it. An
	// interrupt waits for the disk alone.
	stopWait = 5 * time.Second

	// maxWaiting is how many answers of one connection may stand behind an
	// interrupt; nobody is asked that much at once.
	maxWaiting = 1024

	// greetWithin is how long a client may take to say hello: until then it has
	// shown no token and holds a socket.
	greetWithin = 30 * time.Second

	// maxInFlight is how many requests of one connection run at once.
	maxInFlight = 256

	// maxViolations is how many faults an invalid_params error lists.
	maxViolations = 16

	// maxTitle is the longest title in characters that a rename keeps.
	maxTitle = 200

	// maxClientID is the longest clientId, clientKind and instanceId in bytes.
	maxClientID = 200

	// maxNotice is the length of a notice in characters; maxNotices is how
	// many wait for the next turn.
	maxNotice  = 2000
	maxNotices = 20

	// systemEvery is the least time between two turns of a session that the
	// system starts.
	systemEvery = 10 * time.Second

	// maxKeys is how many idempotency keys of session.continue are remembered
	// per session.
	maxKeys = 256

	// progressLimit is how many bytes of a call's output go out while it runs.
	progressLimit = 1 << 20

	// lastTextLimit cuts the text of subagent events, in characters.
	lastTextLimit = 2000

	// maxToolTimeout is the longest a host tool may run, whatever it says.
	maxToolTimeout = 24 * time.Hour

	// maxArtifacts is how many files a session's artifacts list.
	maxArtifacts = 1000

	// maxTools and maxToolSchema bound what one connection registers: a
	// number, and bytes of a schema.
	maxTools      = 256
	maxToolSchema = 64 << 10

	// maxSettings is the largest settings file in bytes.
	maxSettings = 1 << 20

	// commandTextLimit cuts what a command says, in bytes: it is kept with
	// the session.
	commandTextLimit = 16 << 10

	// keeperPage is how many stored values one read takes.
	keeperPage = 500

	// maxAncestors bounds the way from a subagent's chat up to its root.
	maxAncestors = 32

	// usageBatch is how many usage rows one stored value holds at most.
	usageBatch = 256

	// maxUsageRows is how many rows a usage summary lists.
	maxUsageRows = 1000

	// completeDefault and completeMax are how many entries file.complete
	// lists; completeWalk is how many paths it looks at.
	completeDefault = 30
	completeMax     = 200
	completeWalk    = 50000

	// shutdownDelay lets the answer to system.shutdown leave before the
	// program stops.
	shutdownDelay = 50 * time.Millisecond

	// frameRoom is what an event frame needs beside its head and payload.
	frameRoom = 80

	// timeLayout is how moments are written: UTC, milliseconds.
	timeLayout = "2006-01-02T15:04:05.000Z"
)
