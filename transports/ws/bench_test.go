package ws

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/outbox"
)

const (
	fanClients = 100
	fanPayload = 256 // bytes
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportFan reports deliveries per CPU-second, of the receivers too.
func reportFan(b *testing.B, used time.Duration) {
	b.ReportMetric(float64(b.N)*fanClients/used.Seconds(), "deliveries/cpu-s")
	b.ReportMetric(0, "ns/op")
}

// clients connect and read messages; the group is done when each has read want.
func clients(b *testing.B, url string, want int) *sync.WaitGroup {
	b.Helper()
	var done sync.WaitGroup
	d := websocket.Dialer{ReadBufferSize: 64 << 10}
	for range fanClients {
		c, _, err := d.Dial(url, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		done.Go(func() {
			buf := make([]byte, fanPayload)
			for range want {
				_, r, err := c.NextReader()
				if err == nil {
					_, err = io.ReadFull(r, buf)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return &done
}

// BenchmarkFanOut sends b.N frames to each of 100 connections, flat out.
func BenchmarkFanOut(b *testing.B) {
	g := serve(b, Options{PingEvery: time.Hour}, echo)
	done := clients(b, g.url, b.N)
	conns := make([]*Conn, fanClients)
	for i := range conns {
		conns[i] = <-g.conns
		c := conns[i]
		b.Cleanup(func() { c.Close(CloseNormal, "") })
	}
	tape, payload := outbox.Tape{Header: TextHeader}, make([]byte, fanPayload)
	b.ResetTimer()
	before := cpu()
	for range b.N {
		f := tape.Add(payload)
		for _, c := range conns {
			for c.Outbox().Push(f) != nil {
				_ = c.Outbox().WaitBelow(b.Context(), outbox.DefaultLimit/2)
			}
		}
	}
	done.Wait()
	reportFan(b, cpu()-before)
}

// BenchmarkFanOutBareLoop writes the same bytes to the same sockets in pieces of
// the same size, made beforehand, without queues or deadlines: the most that
// the machine can do.
func BenchmarkFanOutBareLoop(b *testing.B) {
	g := serve(b, Options{PingEvery: time.Hour}, echo)
	done := clients(b, g.url, b.N)
	frame := append(TextHeader(nil, fanPayload), make([]byte, fanPayload)...)
	perPiece := outbox.MaxBatch / (fanPayload + 32)
	piece := bytes.Repeat(frame, perPiece)
	sockets := make([]net.Conn, fanClients)
	for i := range sockets {
		c := <-g.conns
		sockets[i] = c.socket.Conn
		b.Cleanup(func() { c.Close(CloseNormal, "") })
	}
	b.ResetTimer()
	before := cpu()
	var writers sync.WaitGroup
	for _, c := range sockets {
		writers.Go(func() {
			for left := b.N; left > 0; left -= perPiece {
				if _, err := c.Write(piece[:min(left, perPiece)*len(frame)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	done.Wait()
	reportFan(b, cpu()-before)
}

// resident is the resident size of this process in bytes, or 0 where unknown.
func resident() int64 {
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// BenchmarkIdleConnection reports what the server keeps for one connection that
// has greeted and is idle. The clients are bare sockets in the same process,
// whose own few hundred bytes count too.
func BenchmarkIdleConnection(b *testing.B) {
	const conns = 2000
	for b.Loop() {
		l, err := listen.Open(b.Context(), listen.Options{})
		if err != nil {
			b.Fatal(err)
		}
		srv := listen.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := Upgrade(w, r, Options{})
			if err != nil {
				return
			}
			listen.Detach(r, func(ctx context.Context) {
				_ = c.Serve(ctx, func(_ context.Context, data []byte) { _ = c.Send(data) })
			})
		}), nil)
		before := resident()
		sockets := make([]net.Conn, conns)
		for i := range sockets {
			c, _, err := websocket.DefaultDialer.Dial("ws://"+l.Addr().String(), nil)
			if err != nil {
				b.Fatal(err)
			}
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"hello":true}`))
			if _, _, err := c.ReadMessage(); err != nil {
				b.Fatal(err)
			}
			sockets[i] = c.NetConn() // lets go of the client's buffers
		}
		b.ReportMetric(float64(resident()-before)/conns, "B/connection")
		for _, c := range sockets {
			_ = c.Close()
		}
		if err := srv.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
