package boltstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/boltstore"
)

// payload is the size of a usual event: a tool result's head, a turn's end.
var payload = bytes.Repeat([]byte("x"), 200)

func openBench(b *testing.B, dir string) *boltstore.Store {
	s, err := boltstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkDurable is the rate of records that are synced to disk. Each
// committer has a log and lets a number of batches of one record be in flight.
func BenchmarkDurable(b *testing.B) {
	for _, committers := range []int{1, 4, 16, 64} {
		for _, flight := range []int{1, 32} {
			b.Run(fmt.Sprintf("committers=%d/inflight=%d", committers, flight), func(b *testing.B) {
				s := openBench(b, b.TempDir())
				var wg sync.WaitGroup
				b.ResetTimer()
				for c := range committers {
					n := (b.N + c) / committers
					wg.Go(func() { commitMany(b, s, fmt.Sprint("log ", c), n, flight) })
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

func commitMany(b *testing.B, s store.Store, log string, n, flight int) {
	tickets := make(chan store.Ticket, flight)
	for i := range uint64(n) {
		if len(tickets) == flight {
			waitBench(b, <-tickets)
		}
		tickets <- s.Commit(store.Batch{Log: log, Records: []store.Record{{First: i + 1, Last: i + 1, Data: payload}}})
	}
	close(tickets)
	for t := range tickets {
		waitBench(b, t)
	}
}

func waitBench(b *testing.B, t store.Ticket) {
	<-t.Done()
	if t.Err() != nil {
		b.Error(t.Err())
	}
}

// BenchmarkAcknowledge is the time until a lone durable batch is on disk, next
// to what the disk itself takes to write and sync a page, taken in turns.
func BenchmarkAcknowledge(b *testing.B) {
	dir := b.TempDir()
	s := openBench(b, dir)
	probe, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer probe.Close()
	page := make([]byte, 4096)
	var ours, disk []time.Duration
	for i := range uint64(b.N) {
		start := time.Now()
		waitBench(b, s.Commit(store.Batch{Log: "a", Records: []store.Record{{First: i + 1, Last: i + 1, Data: payload}}}))
		ours = append(ours, time.Since(start))

		start = time.Now()
		if _, err := probe.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := probe.Sync(); err != nil {
			b.Fatal(err)
		}
		disk = append(disk, time.Since(start))
	}
	report := func(name string, ds []time.Duration) {
		slices.Sort(ds)
		ms := func(q float64) float64 { return ds[int(q*float64(len(ds)-1))].Seconds() * 1000 }
		b.ReportMetric(ms(0.5), name+"-p50-ms")
		b.ReportMetric(ms(0.99), name+"-p99-ms")
	}
	report("ack", ours)
	report("fsync", disk)
}

// BenchmarkColdOpen opens a home of 1,000 logs of 1,000 records each and scans
// its 1,000 summaries.
func BenchmarkColdOpen(b *testing.B) {
	const logs, records = 1000, 1000
	dir := b.TempDir()
	s := openBench(b, dir)
	var last store.Ticket
	for l := range logs {
		batch := store.Batch{Log: fmt.Sprint("log ", l), Lazy: true}
		for i := range uint64(records) {
			batch.Records = append(batch.Records, store.Record{First: i + 1, Last: i + 1, Data: payload})
		}
		batch.Put = []store.KV{{Key: fmt.Sprintf("summary/%04d", l), Value: payload}}
		last = s.Commit(batch)
	}
	waitBench(b, last)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "polyhost.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		s, err := boltstore.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		kvs, err := s.Scan(b.Context(), "summary/", "", logs, false)
		if err != nil || len(kvs) != logs {
			b.Fatalf("%d summaries, %v", len(kvs), err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
}
