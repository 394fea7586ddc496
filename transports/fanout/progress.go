package fanout

import "time"

// Progress is what a stream knows of how a sink that is behind goes on. The
// zero value is of one that never took anything.
type Progress struct {
	at    time.Time // when the sink was last seen to have taken something
	frame uint64    // how many frames had been published by then
	bytes uint64    // and how many bytes
}

// NewProgress begins when so much was published.
func NewProgress(frames, bytes uint64) Progress {
	return Progress{time.Now(), frames, bytes}
}

// Stalled reports whether the sink, which last took something at a moment, has
// taken nothing for StallAfter while all that the stream keeps anyway was
// published anew. A slow machine publishes slowly, too, so it is given time.
func (p *Progress) Stalled(taken time.Time, frames, bytes uint64, keeps Retain) bool {
	if taken.After(p.at) {
		*p = Progress{taken, frames, bytes}
		return false
	}
	return time.Since(p.at) >= StallAfter &&
		(frames-p.frame >= uint64(keeps.Frames) || bytes-p.bytes >= uint64(keeps.Bytes))
}
