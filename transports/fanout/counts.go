package fanout

import "sync/atomic"

// Counts counts frames that are encoded once for everybody who listens. A nil
// Counts counts nothing.
type Counts struct{ encoded, delivered atomic.Uint64 }

// Encoded counts frames that were encoded.
func (c *Counts) Encoded(n int) {
	if c != nil {
		c.encoded.Add(uint64(n))
	}
}

// Delivered counts frames that one connection's queue took.
func (c *Counts) Delivered(n int) {
	if c != nil {
		c.delivered.Add(uint64(n))
	}
}

// Read is how many were encoded, and how many times one was delivered.
func (c *Counts) Read() (encoded, delivered uint64) {
	return c.encoded.Load(), c.delivered.Load()
}
