package httpstream

import "time"

// linger is how long a peer may take to close its side once it was told the end.
const linger = 500 * time.Millisecond
