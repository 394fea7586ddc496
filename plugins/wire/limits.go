package wire

const (
	// Version of the protocol, in the handshake and in InfoReply. It changes
	// when a plugin made before could not be driven any more; a new call, of
	// which an old plugin says that it is unimplemented, does not change it.
	Version = 1
	// MaxMessage is the largest message, in bytes, that either side takes.
	MaxMessage = 32 << 20
	// maxFrame is the largest frame, in bytes, that is sent. A batch is cut
	// so that it stays well below MaxMessage.
	maxFrame = 8 << 20
	// maxBatch is when a batch is full, in bytes of text and JSON.
	maxBatch = 1 << 20
	// MaxPage is the largest page of past turns, in bytes; of a larger one
	// each text and input is cut to keepShort bytes.
	MaxPage   = 16 << 20
	keepShort = 16 << 10
	// Window is what one conversation may have on its way, in bytes, while
	// the receiver does not read.
	Window = 1 << 20
	// ConnWindow is the same for all conversations of a plugin together.
	ConnWindow = 4 << 20
)
