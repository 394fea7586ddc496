package boltstore

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/store"
)

const (
	streamedTurns = 16
	streamedText  = 1 << 20 // bytes of a turn
)

// BenchmarkStreamedText writes what a session stores of long answers, and of
// what happens between them, with large values among their neighbours and
// apart from them, in turns: bytes written for a byte of text, and processor
// time for a MiB of it.
func BenchmarkStreamedText(b *testing.B) {
	ways := []struct {
		name           string
		apart          int
		written, spent float64
	}{{name: "together", apart: math.MaxInt}, {name: "apart", apart: largeValue}}
	for b.Loop() {
		for i := range ways {
			s, err := Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			s.apart = ways[i].apart
			written, spent := bytesWritten(b), processorTime()
			streamText(b, s)
			ways[i].written += float64(bytesWritten(b)-written) / (streamedTurns * streamedText)
			ways[i].spent += (processorTime() - spent).Seconds() * 1000 / (streamedTurns * streamedText >> 20)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, way := range ways {
		b.ReportMetric(way.written/float64(b.N), way.name+"-B/B")
		b.ReportMetric(way.spent/float64(b.N), way.name+"-cpu-ms/MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// streamText writes turns as a session does: the text in pieces, the end of the
// part with all of it, the record of the turn with all of it, calls of tools.
func streamText(b *testing.B, s *Store) {
	const piece, calls = 64 << 10, 6
	next := uint64(1)
	commit := func(lazy bool, puts []store.KV, sizes ...int) store.Ticket {
		batch := store.Batch{Log: "a", Put: puts, Lazy: lazy}
		for _, size := range sizes {
			batch.Records = append(batch.Records, store.Record{First: next, Last: next, Data: make([]byte, size)})
			next++
		}
		return s.Commit(batch)
	}
	wait := func(puts []store.KV, sizes ...int) {
		if err := store.Wait(b.Context(), commit(false, puts, sizes...)); err != nil {
			b.Fatal(err)
		}
	}
	summary := store.KV{Key: "summary", Value: make([]byte, 600)}
	for turn := range streamedTurns {
		wait([]store.KV{summary}, 400)
		for range streamedText / piece / 2 {
			commit(true, nil, piece)
			wait(nil, piece)
		}
		record := store.KV{Key: fmt.Sprintf("turn/%04d", turn), Value: make([]byte, streamedText)}
		wait([]store.KV{summary, record}, streamedText, 300)
		for range calls {
			wait(nil, 500, 300)
		}
	}
}

// bytesWritten is what this process has written so far.
func bytesWritten(b *testing.B) (n int64) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(data[bytes.Index(data, []byte("wchar")):]), "wchar: %d", &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
