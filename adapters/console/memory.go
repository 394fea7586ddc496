package console

import (
	"net/http"
	"runtime/debug"
	"runtime/metrics"
)

// Memory is what the gateway itself holds, agents apart, after a collection.
// All are bytes.
type Memory struct {
	// Objects are what is in use on the heap.
	Objects uint64 `json:"objects"`
	// Stacks are those of the goroutines.
	Stacks uint64 `json:"stacks"`
	// Total is all that the runtime has from the system and has not given back.
	Total uint64 `json:"total"`
	// Goroutines is how many there are.
	Goroutines uint64 `json:"goroutines"`
}

// collect frees what is not used, gives it back to the system and says what is
// left. It costs a collection or two: for somebody who looks, not for a timer.
func (c *Console) collect(w http.ResponseWriter, _ *http.Request) {
	debug.FreeOSMemory()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	metrics.Read(s)
	answer(w, http.StatusOK, Memory{Objects: s[0].Value.Uint64(), Stacks: s[1].Value.Uint64(),
		Total: s[2].Value.Uint64() - s[3].Value.Uint64(), Goroutines: s[4].Value.Uint64()})
}
