//go:build linux

package bench

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// relayVar asks this binary to be the bare relay, with the script for its agent.
const relayVar = "POLYHOST_BENCH_RELAY"

// relay is the least that can stand between an agent and a WebSocket: it says
// its address, takes one client, starts the clock at the end of a pipe and
// sends each line on, all from one goroutine.
func relay(script string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Printf("ws://%s/\n", l.Addr())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var up websocket.Upgrader
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			fail(err)
		}
		cmd, lines := agentOnPipe(script)
		for lines.Scan() {
			if err := c.WriteMessage(websocket.TextMessage, lines.Bytes()); err != nil {
				fail(err)
			}
		}
		_ = cmd.Wait()
		c.Close()
		os.Exit(0)
	}))
}

// agentOnPipe starts the clock with its standard output on a pipe.
func agentOnPipe(script string) (*exec.Cmd, *bufio.Scanner) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{pipeVar + "=" + script}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fail(err)
	}
	return cmd, bufio.NewScanner(out)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// relayed tells how old the deltas are behind the bare relay.
func relayed(b *testing.B, script string) (ages []time.Duration) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{relayVar + "=" + script}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Process.Kill()
	first := bufio.NewScanner(out)
	if !first.Scan() {
		b.Fatal("the relay does not say where it is")
	}
	c, _, err := websocket.DefaultDialer.Dial(first.Text(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for {
		_, line, err := c.ReadMessage()
		if err != nil {
			break
		}
		ages = append(ages, age(string(line), time.Now()))
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return ages
}
