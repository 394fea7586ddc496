package httpstream

import "time"

// linger is how long a peer may take to close its side once it was told the end.
const linger = 500 * time.Millisecond

// socketBuffer bounds in bytes what the kernel queues for a peer. Left to itself
// it grows to megabytes, and as a writer is woken only when a third of it is
// free, a slow peer would look like one that takes nothing.
const socketBuffer = 128 << 10
