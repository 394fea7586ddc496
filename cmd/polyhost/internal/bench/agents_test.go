//go:build linux

package bench

import (
	"bufio"
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/supervisor"
)

// agents are the backends of real agents, in the order of the report.
var agents = []string{"claude", "codex", acpName, "pi"}

// BenchmarkAgentLatency is what a backend adds to a delta's way at 100 deltas a
// second: from the moment the agent's program writes it until the gateway's
// side of the plugin boundary has it, and until a client's socket has it. The
// same lines read from the program's pipe are the measure; the three take turns.
func BenchmarkAgentLatency(b *testing.B) {
	const (
		rounds = 4
		script = "250 10ms"
	)
	for _, name := range agents {
		b.Run("agent="+name, func(b *testing.B) {
			dir := putStandIns(b)
			p := protocols[0]
			g := start(b, name)
			sid := g.session()
			s := p.watch(g, sid)
			g.prompt(sid, "10 10ms")
			s.turn(p)
			c := openBackend(b, dir, name)
			received(b, c, "10 10ms")
			for b.Loop() {
				var pipe, driver, socket []time.Duration
				for range rounds {
					pipe = append(pipe, pipedLines(b, filepath.Join(dir, name), script)...)
					driver = append(driver, received(b, c, script)...)
					g.prompt(sid, script)
					socket = append(socket, s.times(p)...)
				}
				d50, d99 := reportTimes(b, "pipe-", pipe)
				p50, p99 := reportTimes(b, "driver-", driver)
				b.ReportMetric(p50-d50, "added-p50-ms")
				b.ReportMetric(p99-d99, "added-p99-ms")
				reportTimes(b, "socket-", socket)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// openBackend opens a conversation with an agent through a plugin process.
func openBackend(b *testing.B, dir, name string) agent.Conversation {
	b.Helper()
	bin := compiled(b)
	in, err := supervisor.Begin(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	o := supervisor.Options{Name: name, Path: bin.Path(), Args: []string{"backend", name}, Instance: in, Logger: slog.New(slog.DiscardHandler)}
	if name == acpName {
		o.Args = append(o.Args, filepath.Join(dir, name))
	}
	back := supervisor.New(o)
	b.Cleanup(func() { _ = back.Close() })
	c, err := back.Open(b.Context(), agent.Open{Session: "s", Chat: "c", Dirs: []string{b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// received tells how old the deltas of a turn are when the gateway's side has
// them.
func received(b *testing.B, c agent.Conversation, script string) (ages []time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := c.Prompt(ctx, agent.Prompt{Turn: "t", Message: "m", Text: script}); err != nil {
		b.Fatal(err)
	}
	for {
		frames, err := c.Recv(ctx)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for _, f := range frames {
			switch {
			case f.Kind == agent.TextDelta:
				ages = append(ages, age(f.Text, now))
			case f.Kind == agent.TurnEnd && f.Status != event.TurnComplete:
				b.Fatalf("the turn ended %s: %+v", f.Status, f.Error)
			case f.Kind == agent.TurnEnd:
				return ages
			}
		}
	}
}

// pipedLines tells how old the deltas are at the end of the program's pipe,
// where a reader knows no more of a line than its end.
func pipedLines(b *testing.B, program, script string) (ages []time.Duration) {
	b.Helper()
	cmd := exec.Command(program)
	cmd.Env = []string{pipeVar + "=" + script}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		l, err := r.ReadSlice('\n')
		if err != nil {
			break
		}
		now := time.Now()
		if m := stamp.FindSubmatch(l); m != nil {
			ages = append(ages, age(string(m[1]), now))
		}
	}
	if err := cmd.Wait(); err != nil || len(ages) == 0 {
		b.Fatalf("%d deltas came: %v", len(ages), err)
	}
	return ages
}

// BenchmarkAgentChats is 20 Claude chats that stream at once, each with a
// program and a client of its own: how late a delta is at the client's socket,
// and in the last tenth of the turn alone, where a gateway that falls behind is
// latest.
func BenchmarkAgentChats(b *testing.B) {
	const (
		chats  = 20
		script = "500 20ms"
	)
	putStandIns(b)
	p := protocols[0]
	g := start(b, "claude")
	streams := make([]*stream, chats)
	prompt := func(text string) (all, last []time.Duration) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, s := range streams {
			wg.Go(func() {
				ages := s.times(p)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, ages...)
				last = append(last, ages[len(ages)*9/10:]...)
			})
		}
		for _, s := range streams {
			g.prompt(s.session, text)
		}
		wg.Wait()
		return all, last
	}
	for i := range streams {
		sid := g.session()
		streams[i] = p.watch(g, sid)
		streams[i].session = sid
	}
	prompt("10 20ms") // the programs start
	for b.Loop() {
		began, used := time.Now(), g.own()
		all, last := prompt(script)
		took := time.Since(began)
		b.ReportMetric(float64(len(all))/took.Seconds(), "deltas/s")
		b.ReportMetric(100*(g.own()-used).Seconds()/took.Seconds(), "cpu-%")
		reportTimes(b, "", all)
		b.ReportMetric(slices.Max(all).Seconds()*1000, "max-ms")
		b.ReportMetric(slices.Max(last).Seconds()*1000, "last-max-ms")
		if want := chats * 500; len(all) != want {
			b.Errorf("%d of %d deltas came", len(all), want)
		}
	}
	b.ReportMetric(0, "ns/op")
}
