// Package gate decides which batches a home may write. Every home asks the
// same gate, so that all of them refuse the same batches for the same reasons.
//
// A log never gets a gap: once a batch that names a log has failed, whatever
// the cause, later batches that name it fail too, until one continues exactly
// where the stored log ends. Batches that were in flight behind the failed one
// cannot do that; an owner that has read the log's end again can.
//
// The gate knows nothing of where data is kept and is not safe for concurrent
// use: the one goroutine that writes owns it.
package gate

import (
	"fmt"

	"github.com/polyhost/polyhost/core/store"
)

// Gate remembers the logs that miss a batch. The zero value is ready.
type Gate struct {
	broken map[string]error
}

// Admit reports whether b may be written now; end is the stored end of a log.
// A nil error also mends the log, so a batch that is admitted and then not
// written must be given to Failed.
func (g *Gate) Admit(b *store.Batch, end func(log string) uint64) error {
	err := g.check(b, end)
	if err != nil {
		g.Failed(b, err)
		return err
	}
	delete(g.broken, b.DropLog)
	if len(b.Records) > 0 {
		delete(g.broken, b.Log)
	}
	return nil
}

// Failed notes that b was not written, and why.
func (g *Gate) Failed(b *store.Batch, cause error) {
	for _, log := range []string{b.Log, b.DropLog} {
		if log == "" || g.broken[log] != nil {
			continue
		}
		if g.broken == nil {
			g.broken = make(map[string]error)
		}
		g.broken[log] = cause
	}
}

func (g *Gate) check(b *store.Batch, end func(log string) uint64) error {
	if err := wellFormed(b); err != nil {
		return err
	}
	if b.Log == "" {
		return nil
	}
	cause, dropped := g.broken[b.Log], b.DropLog == b.Log
	if len(b.Records) == 0 {
		if cause != nil && !dropped {
			return fmt.Errorf("log %q misses an earlier batch: %w", b.Log, cause)
		}
		return nil
	}
	next := uint64(1)
	if !dropped {
		next = end(b.Log) + 1
	}
	switch first := b.Records[0].First; {
	case first == next:
		return nil
	case cause != nil:
		return fmt.Errorf("log %q misses an earlier batch: %w", b.Log, cause)
	default:
		return fmt.Errorf("%w: log %q goes on at %d, not at %d", store.ErrGap, b.Log, next, first)
	}
}

// wellFormed checks what needs no look at the stored data.
func wellFormed(b *store.Batch) error {
	if len(b.Records) > 0 && b.Log == "" {
		return fmt.Errorf("%w: records without the name of a log", store.ErrInvalid)
	}
	if len(b.Log) > store.MaxName || len(b.DropLog) > store.MaxName {
		return fmt.Errorf("%w: the name of a log is longer than %d bytes", store.ErrInvalid, store.MaxName)
	}
	for i, r := range b.Records {
		if r.First == 0 || r.Last < r.First {
			return fmt.Errorf("%w: a record from %d to %d", store.ErrInvalid, r.First, r.Last)
		}
		if i > 0 && r.First != b.Records[i-1].Last+1 {
			return fmt.Errorf("%w: a record at %d follows one that ends at %d", store.ErrInvalid, r.First, b.Records[i-1].Last)
		}
		if len(r.Data) > store.MaxValue {
			return fmt.Errorf("%w: a record of %d bytes", store.ErrInvalid, len(r.Data))
		}
	}
	for _, kv := range b.Put {
		if kv.Key == "" || len(kv.Key) > store.MaxName {
			return fmt.Errorf("%w: a key of %d bytes", store.ErrInvalid, len(kv.Key))
		}
		if len(kv.Value) > store.MaxValue {
			return fmt.Errorf("%w: a value of %d bytes", store.ErrInvalid, len(kv.Value))
		}
	}
	return nil
}
