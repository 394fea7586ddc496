package host

import "errors"

// The errors that fronts map to their own codes.
var (
	// ErrNotFound: no such session, chat, turn, message or interaction.
	ErrNotFound = errors.New("not found")
	// ErrExists: the id is taken.
	ErrExists = errors.New("already exists")
	// ErrBadDir: a working directory is missing, relative or not a directory.
	ErrBadDir = errors.New("bad working directory")
	// ErrBusy: a turn is running.
	ErrBusy = errors.New("a turn is running")
	// ErrResolved: the interaction was settled before.
	ErrResolved = errors.New("already resolved")
	// ErrInvalid: the request makes no sense for what it is about.
	ErrInvalid = errors.New("invalid request")
	// ErrTooLarge: a bound of limits.go was passed.
	ErrTooLarge = errors.New("too large")
	// ErrClosed: the gateway is stopping.
	ErrClosed = errors.New("the gateway is stopping")
	// ErrNoBackend: no agent backend of that name.
	ErrNoBackend = errors.New("no such agent backend")
	// ErrUnsupported: the agent cannot do that.
	ErrUnsupported = errors.New("not supported by the agent")
)
