package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/gateway"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/logs"
)

// errTwice is the end after a second signal.
var errTwice = errors.New("stopped at once by a second signal")

func (p *program) serve() *cobra.Command {
	var table, stdio bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway until it gets an interrupt or TERM signal. Running turns then get
the grace period, end as interrupted, and all clients are told; a second signal
ends everything at once. Exit code 3 says that another gateway has the home.

With --stdio a program that starts the gateway speaks the front ahp to it through
standard input and output, one JSON text a line, and needs no token. The gateway
stops when that program closes its end; the ports are served as ever.`,
		Args: cobra.NoArgs,
	}
	p.source.Bind(c.Flags())
	c.Flags().BoolVar(&table, "table", isTerminal(os.Stdout), "print a table of the fronts, and how to try them, when ready")
	c.Flags().BoolVar(&stdio, "stdio", false, "serve one client of the front ahp at standard input and output, and stop with it")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.source.Load()
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(c.Context())
		defer stop()
		// A file that may not grow is a full disk to the gateway, not its end.
		signal.Ignore(syscall.SIGXFSZ)
		book := new(logs.Book)
		o := gateway.Options{Settings: s, Version: version, Log: newLogger(s, book), Book: book}
		out := c.OutOrStdout()
		if stdio {
			o.In, o.Out = os.Stdin, os.Stdout
			out, table = c.ErrOrStderr(), false
			// A client that is gone ends the gateway in good order; to ignore the
			// signal would leave that to the agents' programs, too.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		}
		o.Ready = func(e endpoints.Endpoints) {
			fmt.Fprintf(out, "polyhost is ready: pid %d, endpoints in %s\n", e.PID, filepath.Join(s.Home, endpoints.File))
			if table {
				writeTable(out, s, e)
			}
		}
		return gateway.Run(ctx, o)
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

// newLogger logs to standard error, and keeps it in a book.
func newLogger(s settings.Settings, book *logs.Book) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	w := io.MultiWriter(os.Stderr, book)
	if s.LogFormat == "json" {
		return slog.New(book.Handler(slog.NewJSONHandler(w, o)))
	}
	return slog.New(book.Handler(slog.NewTextHandler(w, o)))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
