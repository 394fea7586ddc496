package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/gateway"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

// errTwice is the end after a second signal.
var errTwice = errors.New("stopped at once by a second signal")

func (p *program) serve() *cobra.Command {
	var table bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway until it gets an interrupt or TERM signal. Running turns then get
the grace period, end as interrupted, and all clients are told; a second signal
ends everything at once. Exit code 3 says that another gateway has the home.`,
		Args: cobra.NoArgs,
	}
	p.source.Bind(c.Flags())
	c.Flags().BoolVar(&table, "table", isTerminal(os.Stdout), "print a table of the fronts, and how to try them, when ready")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.source.Load()
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(c.Context())
		defer stop()
		// A file that may not grow is a full disk to the gateway, not its end.
		signal.Ignore(syscall.SIGXFSZ)
		return gateway.Run(ctx, gateway.Options{Settings: s, Version: version, Log: newLogger(s),
			Ready: func(e endpoints.Endpoints) {
				out := c.OutOrStdout()
				fmt.Fprintf(out, "polyhost is ready: pid %d, endpoints in %s\n", e.PID, filepath.Join(s.Home, endpoints.File))
				if table {
					writeTable(out, s, e)
				}
			}})
	}
	return c
}

// untilSignal is a context that ends with the first interrupt or TERM signal.
// The second one ends the process: the agents notice and end themselves.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-signals:
			case <-done:
				return
			}
			if ctx.Err() != nil {
				fmt.Fprintln(os.Stderr, "polyhost:", errTwice)
				os.Exit(exitError)
			}
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

func newLogger(s settings.Settings) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
