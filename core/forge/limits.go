package forge

import "time"

const (
	// askWithin is how long one request may take: somebody waits for most.
	askWithin = 15 * time.Second
	// maxAnswer is the largest answer that is read, in bytes.
	maxAnswer = 1 << 20
	// maxWords is how much is told of why the forge refused, in bytes.
	maxWords = 300
	// MaxTitle and MaxBody are the longest of a pull request, in bytes.
	MaxTitle = 256
	MaxBody  = 64 << 10
)
