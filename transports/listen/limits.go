package listen

import "time"

const (
	// readHeaderTimeout is how long a client may take to send its headers; a
	// client on a machine that is busy takes seconds.
	readHeaderTimeout = 30 * time.Second

	// maxHeaderBytes bounds the headers of one request.
	maxHeaderBytes = 64 << 10

	// idleTimeout is how long a kept-alive connection waits for its next
	// request; longer than the pause of any poller.
	idleTimeout = 2 * time.Minute

	// userTimeout is how long what was sent may stay unacknowledged. Without it
	// a stream to a machine that vanished lives on for the quarter of an hour
	// that the kernel keeps trying.
	userTimeout = 30 * time.Second

	// maxPort is the largest TCP port.
	maxPort = 65535
)
