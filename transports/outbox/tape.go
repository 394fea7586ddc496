package outbox

// Framing appends a payload to dst in the form in which it goes on the wire.
type Framing func(dst, payload []byte) []byte

// Tape lays frames one behind the other, so that queues which take them in
// order hold runs instead of frames: a run costs a slot, is written as it is
// and is shared by all who have it. A tape belongs to one stream, because a
// frame keeps the chunk of the tape it lies in. For one goroutine at a time.
type Tape struct {
	// Framing turns payloads into frames; nil leaves them as they are.
	Framing Framing

	chunk []byte
}

// Add copies a payload and returns its frame. The frame's spare capacity
// belongs to the frames that follow: nobody may append to it.
func (t *Tape) Add(payload []byte) Frame {
	if need := len(payload) + framingRoom; cap(t.chunk)-len(t.chunk) < need {
		t.chunk = make([]byte, 0, max(need, min(2*cap(t.chunk), chunkSize), firstChunk))
	}
	start := len(t.chunk)
	if t.Framing == nil {
		t.chunk = append(t.chunk, payload...)
	} else {
		t.chunk = t.Framing(t.chunk, payload)
	}
	return t.chunk[start:]
}

// follows reports whether f lies right behind run in the same chunk.
func follows(run Run, f Frame) bool {
	n := len(run)
	return len(f) > 0 && cap(run)-n >= len(f) && &run[:n+1][n] == &f[0]
}
