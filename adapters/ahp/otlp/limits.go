package otlp

import "time"

const (
	// logQueue is how many records wait to be exported, the newest, and
	// logBatch how many go into one export.
	logQueue = 1024
	logBatch = 256
	// logEvery is how long records are gathered.
	logEvery = 200 * time.Millisecond
	// metricsEvery is the time between two exports of metrics, and metricsFirst
	// that before the first one: who asked for them has been answered by then.
	metricsEvery = 10 * time.Second
	metricsFirst = 200 * time.Millisecond
	// maxValue is the longest text of an attribute or a record, in characters.
	maxValue = 4096
	// maxAttributes is how many attributes a record or a span may have.
	maxAttributes = 64
)
