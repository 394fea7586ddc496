//go:build linux

package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkStream is one session and one client, flat out: deltas of 20 bytes
// from the demo agent's process to the client's socket, in turns that a client
// which got no processor for a moment can still catch up with.
func BenchmarkStream(b *testing.B) {
	each(b, protocols, func(b *testing.B, p protocol) {
		const turns, deltas = 30, 15_000
		g := start(b, "demo")
		sid := g.session()
		s := p.watch(g, sid)
		g.prompt(sid, "say warm")
		s.turn(p)
		for b.Loop() {
			began, used, frames := time.Now(), g.cpu(), 0
			for range turns {
				g.prompt(sid, fmt.Sprintf("stream %d 20", deltas))
				frames += s.turn(p)
			}
			all := float64(turns * deltas)
			b.ReportMetric(all/time.Since(began).Seconds(), "deltas/s")
			b.ReportMetric(float64((g.cpu()-used).Microseconds())/all, "cpu-µs/delta")
			b.ReportMetric(float64(frames)/all, "frames/delta")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkLatency is what the gateway adds to a delta's way at 100 deltas a
// second, measured from the moment the agent says it. The direct pipe to the
// same agent runs in turns with it, and so does a bare relay: what one more
// process costs that does nothing but pass a line on.
func BenchmarkLatency(b *testing.B) {
	each(b, protocols, func(b *testing.B, p protocol) {
		const (
			rounds = 4
			script = "250 10ms"
		)
		g := start(b, clockName)
		sid := g.session()
		s := p.watch(g, sid)
		g.prompt(sid, "10 10ms")
		s.turn(p)
		for b.Loop() {
			var pipe, relay, socket []time.Duration
			for range rounds {
				pipe = append(pipe, piped(b, script)...)
				relay = append(relay, relayed(b, script)...)
				g.prompt(sid, script)
				socket = append(socket, s.times(p)...)
			}
			p50, p99 := reportTimes(b, "", socket)
			d50, d99 := reportTimes(b, "pipe-", pipe)
			reportTimes(b, "relay-", relay)
			b.ReportMetric(p50-d50, "added-p50-ms")
			b.ReportMetric(p99-d99, "added-p99-ms")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// stamp is a moment of the clock's.
var stamp = regexp.MustCompile(`"([0-9]{19})"`)

// times reads to the end of a turn of the clock and tells how old each delta was.
func (s *stream) times(p protocol) (ages []time.Duration) {
	for {
		f := string(s.frame())
		now := time.Now()
		switch {
		case strings.Contains(f, p.delta):
			if m := stamp.FindStringSubmatch(f); m != nil {
				ages = append(ages, age(m[1], now))
			}
		case strings.Contains(f, p.end):
			return ages
		}
	}
}

func age(stamp string, now time.Time) time.Duration {
	n, _ := strconv.ParseInt(stamp, 10, 64)
	return now.Sub(time.Unix(0, n))
}

// piped tells how old the deltas are at the end of a pipe.
func piped(b *testing.B, script string) (ages []time.Duration) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{pipeVar + "=" + script}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		ages = append(ages, age(lines.Text(), time.Now()))
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return ages
}
