// Modelstub is a model server that does what the prompt says: agent CLIs can be
// tried and tested with it, without an account or a network.
//
//	modelstub [-port N] [-dir DIR] [-pause MS]
//
// It listens on loopback alone and prints {"port": N} when it does.
// docs/model-stub.md says how to point each agent at it and what a prompt may ask.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/cmd/modelstub/stub"
)

// headerTimeout is how long a client may take to send its request's head.
const headerTimeout = 10 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "modelstub:", err)
		os.Exit(1)
	}
}

func run() error {
	port := flag.Int("port", 0, "port on 127.0.0.1; 0 picks a free one")
	dir := flag.String("dir", "", "directory of relative paths in scripts; by default the one the agent names")
	pause := flag.Duration("pause", 2*time.Millisecond, "time after each event of a stream")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: stub.New(stub.Options{Dir: *dir, Pause: *pause}), ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Printf("{\"port\": %d}\n", l.Addr().(*net.TCPAddr).Port)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
