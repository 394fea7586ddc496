package outbox

const (
	// MaxFrames waiting in one outbox; a few milliseconds of a flat-out
	// stream, enough to fill a message on the way to the host.
	MaxFrames = 1024
	// MaxBytes of text and payload waiting in one outbox.
	MaxBytes = 1 << 20
)
