package outbox

// Header appends what precedes a payload of n bytes on the wire, at most
// maxHeader bytes.
type Header func(dst []byte, n int) []byte

// Tape lays frames one behind the other, so that queues which take them in
// order hold runs instead of frames: a run costs a slot, is written as it is
// and is shared by all who have it. A tape belongs to one stream, because a
// frame keeps the chunk of the tape it lies in; long frames have memory of their
// own, so that a chunk is filled but for an eighth. For one goroutine at a time.
type Tape struct {
	// Header makes frames of payloads; nil leaves them as they are.
	Header Header

	chunk  []byte
	header [maxHeader]byte // of the last frame
	head   int             // its length, which is the guess for the next
}

// Begin returns where the payload of the next frame is to be appended; what is
// there already must stay. Room is how long it will be, about: a longer one
// costs a copy.
func (t *Tape) Begin(room int) []byte {
	need := t.head + room
	if need >= ownSize {
		return make([]byte, t.head, need+maxHeader)
	}
	if cap(t.chunk)-len(t.chunk) < need {
		t.chunk = make([]byte, 0, max(need, min(2*cap(t.chunk), chunkSize), firstChunk))
	}
	n := len(t.chunk)
	return t.chunk[n : n+t.head]
}

// End makes a frame of what Begin gave and the payload behind it. The frame's
// spare capacity belongs to the frames that follow: nobody may append to it.
func (t *Tape) End(b []byte) Frame {
	var header []byte
	n := len(b) - t.head
	if t.Header != nil {
		header = t.Header(t.header[:0], n)
	}
	if len(header) != t.head {
		if more := len(header) - t.head; more > 0 {
			b = append(b, header[:more]...)
		}
		copy(b[len(header):], b[t.head:t.head+n])
		b = b[:len(header)+n]
		t.head = len(header)
	}
	copy(b, header)
	if start := len(t.chunk); lieBehind(t.chunk, b) {
		t.chunk = t.chunk[:start+len(b)]
	}
	return b // not in the chunk if it is long or longer than was said
}

// Add copies a payload and returns its frame.
func (t *Tape) Add(payload []byte) Frame {
	return t.End(append(t.Begin(len(payload)), payload...))
}

// Join returns the run with a frame, or another run, that lies right behind it.
// It reports false when that is not so, or the two would not fit one batch.
func (r Run) Join(f []byte) (Run, bool) {
	if len(r)+len(f)+runOverhead > MaxBatch || !lieBehind(r, f) {
		return r, false
	}
	return r[:len(r)+len(f)], true
}

// lieBehind reports whether f begins where b ends, in the same chunk.
func lieBehind(b, f []byte) bool {
	n := len(b)
	return len(f) > 0 && cap(b)-n >= len(f) && &b[:n+1][n] == &f[0]
}
