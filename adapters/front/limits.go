package front

import "time"

// settleWithin is how long clients that are let go wait for the last events of
// their sessions. They are in memory: it is only as long as a busy machine needs.
const settleWithin = 2 * time.Second
