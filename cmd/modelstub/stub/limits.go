package stub

import "time"

const (
	// maxBody is the longest request in bytes, unpacked: agents send whole
	// conversations with images.
	maxBody = 64 << 20

	// maxSteps is how many lines of a script count, maxWords how many words
	// one of them may ask for.
	maxSteps = 200
	maxWords = 1_000_000

	// maxLog is how many requests the log keeps.
	maxLog = 1000

	// maxHang is how long an answer that hangs stays open.
	maxHang = time.Minute

	// slowPause is the time between the words of a slow answer that names none.
	slowPause = 50 * time.Millisecond

	// quoted is how many characters of a tool's result the closing text quotes.
	quoted = 80

	// charsPerToken is the rule of thumb behind the usage figures.
	charsPerToken = 4
)
