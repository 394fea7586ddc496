package host

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// writer gathers what one session must store until the session hands it to
// the store. It belongs to the session's goroutine.
type writer struct {
	store store.Store
	log   string

	records []store.Record
	put     []store.KV
	del     []string
	durable bool
	err     error

	run     deltaRun
	runFrom uint64
	text    []byte // of run
	since   int    // records since the last snapshot
	last    uint64 // of what was added
}

// add takes an event. Deltas of one part are gathered into a run.
func (w *writer) add(e *event.Event) {
	w.last = e.Seq
	if d, ok := e.Body.(*event.PartDelta); ok {
		if len(w.run.Lens) > 0 && (w.run.Part != d.Part || w.run.Field != d.Field || len(w.text) >= flushBytes) {
			w.closeRun()
		}
		if len(w.run.Lens) == 0 {
			w.run = deltaRun{At: e.At.UnixMilli(), Chat: e.Chat, Turn: e.Turn, Part: d.Part, Field: d.Field, Lens: w.run.Lens[:0]}
			w.runFrom = e.Seq
		}
		w.text = append(w.text, d.Text...)
		w.run.Lens = append(w.run.Lens, len(d.Text))
		return
	}
	w.closeRun()
	r, err := encodeEvent(e)
	if err != nil {
		w.err = err
		return
	}
	w.records = append(w.records, r)
	if event.DurabilityOf(e.Body) != event.Lazy {
		w.durable = true
	}
}

func (w *writer) closeRun() {
	n := len(w.run.Lens)
	if n == 0 {
		return
	}
	w.run.Text = string(w.text)
	b, err := json.Marshal(w.run)
	if err != nil {
		w.err = err
	}
	w.records = append(w.records, store.Record{First: w.runFrom, Last: w.runFrom + uint64(n) - 1,
		Data: append([]byte{recordDeltas}, b...)})
	w.run.Lens, w.text = w.run.Lens[:0], w.text[:0]
}

// waiting reports whether anything was added since the last commit.
func (w *writer) waiting() bool {
	return len(w.records) > 0 || len(w.run.Lens) > 0 || len(w.put) > 0 || len(w.del) > 0
}

// full reports whether the open run should not grow further.
func (w *writer) full() bool { return len(w.text) >= flushBytes || len(w.run.Lens) >= reserveSeqs/2 }

// commit hands everything over. last is the newest number that was added.
func (w *writer) commit() (t store.Ticket, last uint64) {
	w.closeRun()
	b := store.Batch{Log: w.log, Records: w.records, Put: w.put, Delete: w.del, Lazy: !w.durable}
	w.since += len(w.records)
	w.records, w.put, w.del, w.durable = nil, nil, nil, false
	t = w.store.Commit(b)
	if w.err != nil {
		t, w.err = failed(w.err), nil
	}
	return t, w.last
}

type failedTicket struct{ err error }

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func failed(err error) store.Ticket          { return failedTicket{err} }
func (f failedTicket) Done() <-chan struct{} { return closedChan }
func (f failedTicket) Err() error            { return f.err }

// snapshot is the stored form of a state: without the finished turns, which
// have records of their own.
func snapshot(st *state.State) ([]byte, error) {
	head := *st
	head.Chats = make([]*state.Chat, len(st.Chats))
	for i, c := range st.Chats {
		own := *c
		own.Turns = nil
		head.Chats[i] = &own
	}
	return json.Marshal(&head)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
