package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/store/boltstore"
)

// fsyncProbe is what the disk itself takes for 4 KiB: p50 and p99.
func fsyncProbe(b *testing.B, dir string) (p50, p99 time.Duration) {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	block := make([]byte, 4096)
	for range 300 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return percentiles(took)
}

func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkDurableEvents is how many durable events a second reach the disk
// from eight sessions whose agents run tools as fast as they can.
func BenchmarkDurableEvents(b *testing.B) {
	home, err := boltstore.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer home.Close()
	h, err := Open(context.Background(), Options{Store: home, DefaultDir: b.TempDir(), Backends: []NamedBackend{{Name: "quiet", Backend: quietAgent{}}}})
	if err != nil {
		b.Fatal(err)
	}
	const sessions = 8
	var all []*Session
	for range sessions {
		s, err := h.CreateSession(context.Background(), CreateSession{By: event.Actor{Front: "bench"}})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, s)
	}
	b.ResetTimer()
	began := time.Now()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			on(b, s, func() { s.at = now(); s.start(s.chatRun(s.work.Default), event.Message{Text: "x"}, false) })
			for range b.N / sessions / 4 {
				s.urgent <- func() { // start, ready, running, end: four durable events
					r := s.chatRun(s.work.Default)
					s.frame(r, &agent.Frame{Kind: agent.ToolRun, Call: "a call with a long id", Tool: &agent.Tool{Name: "bash", Title: "ls"}})
					s.frame(r, &agent.Frame{Kind: agent.ToolEnd, Call: "a call with a long id", Result: &agent.Result{Output: "some words of output"}})
				}
			}
			on(b, s, func() { s.end(s.chatRun(s.work.Default), event.TurnComplete, nil, event.Gateway) })
			if err := s.Durable(context.Background(), s.seq.Load()); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
	b.StopTimer()
	if err := h.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// BenchmarkPromptAnswer is how long a prompt waits for its answer, which comes
// once the prompt is on disk; beside it, what the disk takes for one fsync.
func BenchmarkPromptAnswer(b *testing.B) {
	dir := b.TempDir()
	home, err := boltstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer home.Close()
	h, err := Open(context.Background(), Options{Store: home, DefaultDir: dir, Backends: []NamedBackend{{Name: "quiet", Backend: quietAgent{}}}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := h.CreateSession(context.Background(), CreateSession{By: event.Actor{Front: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	_, fsync := fsyncProbe(b, dir)
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		if _, err := s.Prompt(context.Background(), Prompt{Text: "x"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		on(b, s, func() { s.end(s.chatRun(s.work.Default), event.TurnComplete, nil, event.Gateway) })
	}
	b.StopTimer()
	p50, p99 := percentiles(took)
	b.ReportMetric(ms(p50), "p50-ms")
	b.ReportMetric(ms(p99), "p99-ms")
	b.ReportMetric(ms(fsync), "fsync-p99-ms")
	b.ReportMetric(ms(2*fsync+5*time.Millisecond), "bound-ms")
	if err := h.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
