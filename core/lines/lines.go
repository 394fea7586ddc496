// Package lines reads the records of a pipe that are ended by LF, as agent
// CLIs write them.
//
// Only LF ends a record: U+2028 and CR are text, though a CR right before the
// LF is taken off. A record over the limit is skipped to its LF and reported,
// and the reader goes on with the next. Memory is bounded by the limit, and
// given back after a long record.
//
// It must not know what a record means.
package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	// DefaultLimit is the longest record in bytes: agents put whole files and
	// images into one.
	DefaultLimit = 32 << 20

	// chunk is the read buffer in bytes; records up to it need no other.
	chunk = 64 << 10
)

// TooLongError reports a record that was skipped.
type TooLongError struct {
	Length int64 // bytes without the LF
	Limit  int
	Head   []byte // the beginning of the record, at most a few hundred bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("record of %d bytes, at most %d", e.Length, e.Limit)
}

// Is makes errors.Is(err, ErrTooLong) true.
func (e *TooLongError) Is(target error) bool { return target == ErrTooLong }

// ErrTooLong matches every *TooLongError.
var ErrTooLong = errors.New("record too long")

// headBytes is how much of a skipped record is kept to tell what it was.
const headBytes = 256

// Reader reads records. It is for one goroutine.
type Reader struct {
	r     *bufio.Reader
	limit int
	long  []byte
}

// NewReader reads from r records of at most limit bytes; zero means
// DefaultLimit.
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Reader{r: bufio.NewReaderSize(r, chunk), limit: limit}
}

// Next returns the next record without its line end, valid until the next call.
// The last record may lack its LF; after it comes io.EOF. After ErrTooLong the
// reader goes on.
func (r *Reader) Next() ([]byte, error) {
	r.long = nil
	piece, err := r.r.ReadSlice('\n')
	if err == nil && len(piece)-1 <= r.limit {
		return trim(piece), nil
	}
	var length int64
	for {
		length += int64(len(piece))
		if room := r.limit + 1; len(r.long) <= r.limit {
			r.long = append(r.long, piece[:min(len(piece), room-len(r.long))]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		piece, err = r.r.ReadSlice('\n')
	}
	if err == nil {
		length-- // the LF
	}
	switch {
	case err != nil && (length == 0 || err != io.EOF):
		return nil, err
	case length > int64(r.limit):
		head := append([]byte(nil), r.long[:min(headBytes, len(r.long))]...)
		r.long = nil
		return nil, &TooLongError{Length: length, Limit: r.limit, Head: head}
	}
	return trim(r.long), nil
}

func trim(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}
