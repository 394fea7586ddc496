//go:build linux

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store/boltstore"
)

// BenchmarkResume is the time from asking until the last byte of 1,000 missed
// events is here. The handshake of the new connection does not count.
func BenchmarkResume(b *testing.B) {
	for _, r := range []struct {
		protocol
		dial   func(*gateway) *stream
		resume func(g *gateway, sid id.ID) (method string, params any)
	}{
		{protocols[0], helloSnowpea, func(_ *gateway, sid id.ID) (string, any) {
			return "session.resume", map[string]any{"sessionId": sid.String(), "afterSeq": 0}
		}},
		{protocols[2], helloZidane, func(g *gateway, sid id.ID) (string, any) {
			return "sessions.resume", map[string]any{"sessionId": sid.String(), "epoch": g.epoch, "afterSeq": 0}
		}},
	} {
		b.Run("front="+r.name, func(b *testing.B) {
			g := start(b, "demo")
			sid := g.session()
			end := watchCognitio(g, sid)
			g.prompt(sid, fmt.Sprintf("stream %d 20", missed))
			end.until(protocols[3].end)
			for b.Loop() {
				var took []time.Duration
				for range 50 {
					s := r.dial(g)
					method, params := r.resume(g, sid)
					began := time.Now()
					got := s.ask(9, method, params)
					took = append(took, time.Since(began))
					if n := bytes.Count(got, []byte(r.delta)); n != missed {
						b.Fatalf("%d of %d missed events came", n, missed)
					}
					s.close()
				}
				reportTimes(b, "", took)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("front=ahp", func(b *testing.B) {
		g := start(b, "demo")
		sid := g.session()
		end := watchCognitio(g, sid)
		g.prompt(sid, "say hello") // a private session has no name before its first turn
		end.until(protocols[3].end)
		for b.Loop() {
			var took []time.Duration
			for i := range 50 {
				s := watchAHP(g, sid)
				seen := s.seen
				s.close()
				g.prompt(sid, fmt.Sprintf("stream %d 20", missed))
				end.until(protocols[3].end)
				back := dial(b, g.at["ahp"]["url"], http.Header{"Authorization": {"Bearer " + g.at["ahp"]["token"]}})
				began := time.Now()
				got := back.ask(i+10, "reconnect", map[string]any{"channel": "ahp-root://", "clientId": s.client,
					"lastSeenServerSeq": seen, "subscriptions": []string{chatAHP(g, sid)}})
				took = append(took, time.Since(began))
				if n := bytes.Count(got, []byte(`"type":"chat/`)); n < missed {
					b.Fatalf("%d of %d missed events came: %.300s", n, missed, got)
				}
				back.close()
			}
			reportTimes(b, "", took)
		}
		b.ReportMetric(0, "ns/op")
	})
}

// missed is how many deltas a client missed.
const missed = 1000

// BenchmarkCancel is the time from a client's cancel until the agent is told,
// while 10 clients of the session are stalled and the agent talks flat out.
func BenchmarkCancel(b *testing.B) {
	g := start(b, clockName)
	sid := g.session()
	p := protocols[0]
	for range 10 {
		p.watch(g, sid)
	}
	s := p.watch(g, sid)
	g.prompt(sid, "50000 20us")
	s.turn(p)
	for b.Loop() {
		var took []time.Duration
		for range 50 {
			g.prompt(sid, "1000000 100us")
			s.until(p.delta)
			began := time.Now()
			g.post("/session/"+sid.CognitioDescending("ses")+"/abort", struct{}{})
			s.turn(p)
			g.prompt(sid, "interrupted")
			at := stamp.FindSubmatch(s.until(p.delta))
			if at == nil {
				b.Fatal("the clock does not say when it was interrupted")
			}
			took = append(took, -age(string(at[1]), began))
			s.turn(p)
		}
		reportTimes(b, "", took)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkColdStart is the time from exec to endpoints.json in a home of
// 1,000 sessions of 1,000 events.
func BenchmarkColdStart(b *testing.B) {
	g := start(b, "demo")
	g.stop()
	fill(b, g.place.Home, g.place.Work)
	var took []time.Duration
	for range 10 {
		began := time.Now()
		g.run()
		took = append(took, time.Since(began))
		g.stop()
	}
	g.run() // for the cleanup
	for b.Loop() {
	}
	reportTimes(b, "", took)
	b.ReportMetric(0, "ns/op")
}

// fill makes the sessions by way of the host: a turn with a thousand events in each.
func fill(b *testing.B, home, work string) {
	b.Helper()
	db, err := boltstore.Open(home)
	if err != nil {
		b.Fatal(err)
	}
	h, err := host.Open(b.Context(), host.Options{Store: db, DefaultDir: work, Backends: []host.NamedBackend{{Name: "demo", Backend: talker{}}}})
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		s, err := h.CreateSession(b.Context(), host.CreateSession{By: event.Actor{Front: "bench"}})
		if err != nil {
			b.Fatal(err)
		}
		done, err := s.Prompt(b.Context(), host.Prompt{Text: "stream", By: event.Actor{Front: "bench"}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.WaitTurn(b.Context(), s.State().Default, done.Turn); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(h.Close(b.Context()), db.Close()); err != nil {
		b.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(home, "polyhost.db")); err == nil {
		b.Logf("the home holds %.0f MiB", mib(info.Size()))
	}
}
