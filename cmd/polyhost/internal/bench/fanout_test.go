//go:build linux

package bench

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

const (
	fanClients = 100
	fanRounds  = 3
	fanTurns   = 6 // of a round
	fanDeltas  = 4_000
	fanPayload = 256 // bytes of text
)

// sockets are the protocols that use WebSockets.
var sockets = protocols[:3]

// BenchmarkFanOut is one session watched by 100 clients, flat out, through the
// whole gateway; all processor time that it, its agent and the clients use
// counts. Then a bare loop in a process of its own sends the clients the same
// bytes in writes of the same average size: ratio is ours over the loop's.
func BenchmarkFanOut(b *testing.B) {
	each(b, sockets, func(b *testing.B, p protocol) {
		g := start(b, "demo")
		sid := g.session()
		clients := make([]*stream, fanClients)
		for i := range clients {
			clients[i] = p.watch(g, sid)
		}
		script := fmt.Sprintf("stream %d %d", fanDeltas, fanPayload)
		g.prompt(sid, script)
		fan(clients[1:], func(c *stream) { c.turn(p) })
		recorded := clients[0].record(p)
		for b.Loop() {
			var ours, bare, ratios []float64
			for range fanRounds {
				calls, size := writesOf(b, g.pid)
				used := g.cpu()
				for range fanTurns {
					g.prompt(sid, script)
					fan(clients, func(c *stream) {
						if n := c.turn(p); n != fanDeltas {
							b.Errorf("a client got %d of %d deltas", n, fanDeltas)
						}
					})
				}
				o := fanDeliveries / (g.cpu() - used).Seconds()
				calls2, size2 := writesOf(b, g.pid)
				perWrite := (size2 - size) / (calls2 - calls)
				l := bareLoop(b, p, recorded, int(perWrite))
				ours, bare, ratios = append(ours, o), append(bare, l), append(ratios, o/l)
				b.ReportMetric(float64(perWrite), "B/write")
			}
			b.ReportMetric(median(ours), "deliveries/cpu-s")
			b.ReportMetric(median(bare), "bare-loop/cpu-s")
			b.ReportMetric(median(ratios), "ratio")
		}
		b.ReportMetric(0, "ns/op")
	})
}

const fanDeliveries = float64(fanClients * fanTurns * fanDeltas)

// fan runs f for all clients at once.
func fan(clients []*stream, f func(*stream)) {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { f(c) })
	}
	wg.Wait()
}

// record reads a turn and returns it as it came over the WebSocket.
func (s *stream) record(p protocol) (wire []byte) {
	for {
		f := s.frame()
		wire = append(wire, 0x81)
		switch n := len(f); {
		case n <= 125:
			wire = append(wire, byte(n))
		case n <= math.MaxUint16:
			wire = binary.BigEndian.AppendUint16(append(wire, 126), uint16(n))
		default:
			wire = binary.BigEndian.AppendUint64(append(wire, 127), uint64(n))
		}
		wire = append(wire, f...)
		if _, end := looksLike(f, []byte(p.delta), []byte(p.end)); end {
			return wire
		}
	}
}

// bareLoop has the recorded turn sent to as many clients by a process that
// does nothing else, and returns deliveries per CPU-second.
func bareLoop(b *testing.B, p protocol, recorded []byte, perWrite int) float64 {
	file := filepath.Join(b.TempDir(), "turn")
	if err := os.WriteFile(file, recorded, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{loopVar + "=" + file, "PER_WRITE=" + strconv.Itoa(perWrite)}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	var url string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		b.Fatal(err)
	}
	clients := make([]*stream, fanClients)
	for i := range clients {
		clients[i] = dial(b, url, nil)
	}
	used := selfCPU() + cpuOf(b, cmd.Process.Pid)
	for range fanTurns {
		fmt.Fprintln(in, "go")
		fan(clients, func(c *stream) { c.turn(p) })
	}
	used = selfCPU() + cpuOf(b, cmd.Process.Pid) - used
	in.Close()
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	for _, c := range clients {
		c.close()
	}
	return fanDeliveries / used.Seconds()
}

// loopVar asks this binary to be the bare loop for a file.
const loopVar = "POLYHOST_BENCH_LOOP"

// loop sends the file to all its clients for each line of its standard input.
func loop() {
	turn, err := os.ReadFile(os.Getenv(loopVar))
	perWrite, _ := strconv.Atoi(os.Getenv("PER_WRITE"))
	if err != nil || perWrite <= 0 {
		os.Exit(1)
	}
	conns := make(chan net.Conn, fanClients)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := new(websocket.Upgrader).Upgrade(w, r, nil); err == nil {
			conns <- c.NetConn()
		}
	}))
	fmt.Println("ws" + strings.TrimPrefix(srv.URL, "http"))
	all := make([]net.Conn, fanClients)
	for i := range all {
		all[i] = <-conns
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() {
				for left := turn; len(left) > 0; {
					n, err := c.Write(left[:min(perWrite, len(left))])
					if err != nil {
						return
					}
					left = left[n:]
				}
			})
		}
		wg.Wait()
	}
}

// BenchmarkStalled is what one client that never reads does to the other 99:
// the age of the clock's deltas at 100 a second, with and without it.
func BenchmarkStalled(b *testing.B) {
	each(b, sockets, func(b *testing.B, p protocol) {
		g := start(b, clockName)
		sid := g.session()
		clients := make([]*stream, fanClients-1)
		for i := range clients {
			clients[i] = p.watch(g, sid)
		}
		ages := func() (all []time.Duration) {
			g.prompt(sid, "200 10ms")
			var wg sync.WaitGroup
			var mu sync.Mutex
			for _, c := range clients {
				wg.Go(func() {
					d := c.times(p)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, d...)
				})
			}
			wg.Wait()
			return all
		}
		ages()
		for b.Loop() {
			var with, without []time.Duration
			for range 3 { // in turns, so that both meet the same machine
				without = append(without, ages()...)
				stalled := p.watch(g, sid) // nobody reads it
				with = append(with, ages()...)
				stalled.close()
			}
			_, w := reportTimes(b, "stalled-", with)
			_, o := reportTimes(b, "", without)
			b.ReportMetric(w/o, "p99-ratio")
		}
		b.ReportMetric(0, "ns/op")
	})
}
