package zidane

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// resume asks for what was missed, as a client does, and checks its form.
func (c *client) resume(session string, after int) (numbers []int, signals []signal, reason string) {
	c.t.Helper()
	r := c.call("sessions.resume", fmt.Sprintf(`{"sessionId":%q,"epoch":%q,"afterSeq":%d}`, session, c.hello["signalEpoch"], after))
	if r.Error != nil {
		c.t.Fatal(r.Error.Message)
	}
	var out struct {
		OK      bool   `json:"ok"`
		Reason  string `json:"reason"`
		Signals []struct {
			Seq    int    `json:"seq"`
			Signal signal `json:"signal"`
		} `json:"signals"`
	}
	if err := json.Unmarshal(r.Result, &out); err != nil {
		c.t.Fatalf("%s: %v", r.Result, err)
	}
	if !out.OK {
		return nil, nil, out.Reason
	}
	for i, s := range out.Signals {
		if s.Seq != after+1+i {
			c.t.Fatalf("replay after %d: entry %d is number %d", after, i, s.Seq)
		}
		if s.Signal["$seq"] != nil {
			c.t.Fatalf("the replayed signal carries its number: %v", s.Signal)
		}
		numbers, signals = append(numbers, s.Seq), append(signals, s.Signal)
	}
	return numbers, signals, ""
}

func TestCutConnectionResumesWithoutHoleOrDouble(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"stream 300 10 10\nsay end"}`, session))
	var before []signal
	for len(before) < 60 {
		before = append(before, c.next("a piece", func(s signal) bool { return s.session() == session }))
	}
	seen := before[len(before)-1].seq()
	c.close()

	c = g.connect()
	_, replay, reason := c.resume(session, seen)
	if reason != "" {
		t.Fatal(reason)
	}
	all := append(before, replay...)
	next := seen + len(replay) + 1
	for _, s := range c.until(session, "run:end") {
		if s.seq() < next {
			continue // held while the replay ran, and in it
		}
		if s.seq() != next {
			t.Fatalf("live goes on with %d, want %d", s.seq(), next)
		}
		next++
		all = append(all, s)
	}
	if got := text(all); len(got) != 3000+len("end") || !strings.HasSuffix(got, "end") {
		t.Errorf("the pieces make %d bytes", len(got))
	}
	if n, _, reason := c.resume(session, next-1); reason != "" || len(n) > 0 {
		t.Errorf("nothing was missed: %v %s", n, reason)
	}
	if n, _, reason := c.resume(session, 0); reason != "" || len(n) != next-1 {
		t.Errorf("from the beginning: %d of %d, %s", len(n), next-1, reason)
	}
	if _, _, reason := c.resume(session, next); reason != "gap" {
		t.Errorf("beyond the newest: %q", reason)
	}
	r := c.ok("sessions.resume", fmt.Sprintf(`{"sessionId":%q,"epoch":%q,"afterSeq":999999}`, session, id.New()))
	if r["ok"] != false || r["reason"] != "epoch" {
		t.Errorf("another epoch: %v", r)
	}
}

func TestLogThatDroppedSignalsSaysGap(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	got := c.send(session, "stream 2500 1")
	last := got[len(got)-1].seq()
	if last <= keptSignals.signals {
		t.Fatalf("only %d signals", last)
	}
	if _, _, reason := c.resume(session, 1); reason != "gap" {
		t.Errorf("from 1: %q", reason)
	}
	if n, _, reason := c.resume(session, last-100); len(n) != 100 {
		t.Errorf("the newest 100: %d, %s", len(n), reason)
	}
	if n, _, _ := c.resume(session, last-keptSignals.signals); len(n) != keptSignals.signals {
		t.Errorf("all that is kept: %d", len(n))
	}
	if _, _, reason := c.resume(session, last-keptSignals.signals-1); reason != "gap" {
		t.Errorf("one more: %q", reason)
	}
}

func TestNumbersGoOnWhenTheSessionLeftMemory(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	s, err := g.host.CreateSession(context.Background(), host.CreateSession{By: elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	session := s.ID().String()
	before := c.send(session, "say one")
	p := g.front.open(s.ID(), s.State()) // as after it left memory and came back
	p.Close()
	after := c.send(session, "say two")
	if after[0].kind() == "session:created" || after[0].seq() != before[len(before)-1].seq()+1 {
		t.Errorf("goes on with %v", after[0])
	}
}

// TestLogKeepsItsLimits compares the log with a list of all that was sent.
func TestLogKeepsItsLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := logLimits{signals: 20, bytes: 2000, total: 5000}
		s := newSignals("epoch", limits)
		sent := map[id.ID][]string{}
		sessions := []id.ID{id.New(), id.New(), id.New(), id.New()}
		size := rapid.SampledFrom([]int{1, 50, 500, limits.bytes + 1}).Draw(t, "size")
		for range rapid.IntRange(1, 60).Draw(t, "bursts") {
			session := rapid.SampledFrom(sessions).Draw(t, "session")
			for range rapid.IntRange(1, 10).Draw(t, "signals") {
				body := strings.Repeat("x", rapid.IntRange(0, size).Draw(t, "bytes"))
				frame := member(begin("event", 0), "text", jsonx.AppendString(nil, body))
				sent[session] = append(sent[session], string(frame[len(framePrefix):])+"}")
				s.send(session, uint64(len(sent[session])), frame)
			}
			total := 0
			for _, st := range s.streams {
				bytes := 0
				for i := range st.n {
					bytes += st.at(i).size()
				}
				if bytes != st.bytes || st.n > limits.signals || bytes > limits.bytes {
					t.Fatalf("%d signals, %d bytes counted as %d", st.n, bytes, st.bytes)
				}
				total += bytes
			}
			if total != s.bytes || total > limits.total {
				t.Fatalf("%d bytes in all counted as %d", total, s.bytes)
			}
		}
		for _, x := range sessions {
			last := uint64(len(sent[x]))
			after := rapid.Uint64Range(0, last+1).Draw(t, "after")
			var out struct {
				OK      bool
				Reason  string
				Signals []struct {
					Seq    uint64
					Signal json.RawMessage
				}
			}
			if err := json.Unmarshal(s.resume(x, "epoch", after), &out); err != nil {
				t.Fatal(err)
			}
			kept := uint64(0)
			if st := s.streams[x]; st != nil {
				kept = uint64(st.n)
			}
			if out.OK != (after <= last && after+kept >= last) || !out.OK && out.Reason != "gap" {
				t.Fatalf("after %d of %d with %d kept: %v %s", after, last, kept, out.OK, out.Reason)
			}
			for i, e := range out.Signals {
				if e.Seq != after+1+uint64(i) || string(e.Signal) != sent[x][e.Seq-1] {
					t.Fatalf("entry %d is %d: %s", i, e.Seq, e.Signal)
				}
			}
			if out.OK && uint64(len(out.Signals)) != last-after {
				t.Fatalf("%d signals after %d of %d", len(out.Signals), after, last)
			}
		}
	})
}

func TestLeastRecentlyWrittenLogGoesFirst(t *testing.T) {
	t.Parallel()
	const piece = 1000
	s := newSignals("epoch", logLimits{signals: 100, bytes: 4 * piece, total: 32 * piece})
	fill := func(session id.ID) {
		for range 4 {
			s.send(session, 0, member(begin("event", piece), "text", jsonx.AppendString(nil, strings.Repeat("x", piece-100))))
		}
	}
	var sessions []id.ID
	for range 8 {
		sessions = append(sessions, id.New())
		fill(sessions[len(sessions)-1])
	}
	s.send(sessions[0], 0, begin("touch", 0)) // the first is written again
	sessions = append(sessions, id.New())
	fill(sessions[8])
	for i, x := range sessions {
		gone := s.streams[x].n == 0
		if gone != (i == 1) {
			t.Errorf("log of session %d: %d signals", i, s.streams[x].n)
		}
	}
	if got := string(s.resume(sessions[1], "epoch", 0)); got != `{"ok":false,"reason":"gap"}` {
		t.Errorf("resume of the dropped one: %s", got)
	}
	if got := string(s.resume(sessions[1], "epoch", 4)); got != `{"ok":true,"signals":[]}` {
		t.Errorf("resume of the dropped one at its end: %s", got)
	}
}

// loudTurns makes a session of turns whose prompt is a megabyte and more, which
// the agent repeats as an error.
func (g *gateway) loudTurns(n int) (session string) {
	g.t.Helper()
	ctx := context.Background()
	s, err := g.host.CreateSession(ctx, host.CreateSession{By: elsewhere})
	if err != nil {
		g.t.Fatal(err)
	}
	for range n {
		p, err := s.Prompt(ctx, host.Prompt{Text: "fail " + strings.Repeat("x", 1_200_000), By: elsewhere})
		if err == nil {
			_, err = s.WaitTurn(ctx, s.State().Default, p.Turn)
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
	return s.ID().String()
}

func TestClientThatDoesNotReadIsCutAndResumes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	slow := g.connect()
	session := g.loudTurns(10) // far more than outbox, ring and socket buffers hold
	// If it read sooner it might catch up.
	g.emptied()
	// It hears the reason, or no more than the end when it comes back too late.
	if code, reason := slow.closeCode(); code == 1008 && reason != tooFarBehind || code != 1008 && code != 1006 && code != 0 {
		t.Errorf("closed with %d %q", code, reason)
	}
	again := g.connect()
	if _, _, reason := again.resume(session, 1); reason != "gap" {
		t.Errorf("resume: %q", reason)
	}
	if page := again.ok("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, session)); page["seq"] == nil {
		t.Error("the page does not say which signal it covers")
	}
}
