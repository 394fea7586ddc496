package jsonrpc

import "time"

const (
	// maxID is the longest request id that is taken, in bytes of JSON.
	maxID = 512

	// DefaultInFlight is how many requests of one peer run at once; a client
	// that waits on more has lost its bearings.
	DefaultInFlight = 64

	// maxNotifications is how many notifications of one peer may wait or run at
	// once. They cannot be refused one by one, so past it the peer is cut.
	maxNotifications = 1024

	// maxCalls is how many of our own requests one peer may leave open.
	maxCalls = 1024

	// DefaultCallTimeout is how long the peer may take to answer a request
	// whose context has no deadline.
	DefaultCallTimeout = 30 * time.Second
)
