package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
)

// stop takes down what was started. Turns end before their clients are let
// go, so that these see the end; the store goes last, with everything in it.
func (g *gateway) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), g.o.Grace+stopWithin)
	defer cancel()
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if g.written {
		try("remove endpoints.json", endpoints.Remove(g.o.Home))
	}
	if g.stopAutomations != nil { // first: a run that the stop cuts off is to say so, not that somebody cancelled it
		g.stopAutomations()
	}
	if g.host != nil {
		try("end the sessions", g.host.Close(ctx))
	}
	g.drain(ctx)
	if g.tools != nil {
		try("stop to serve clients' tools", g.tools.Shutdown(ctx))
	}
	if g.stopRun != nil {
		g.stopRun()
	}
	for _, s := range g.services {
		for _, l := range s.sockets {
			try("close a socket", l.Close())
		}
	}
	g.runs.Wait()
	var wg sync.WaitGroup
	for _, b := range g.agents {
		wg.Go(func() {
			if err := b.Backend.Close(); err != nil {
				g.log.Warn("An agent did not end well", "backend", b.Name, "err", err)
			}
		})
	}
	wg.Wait()
	if g.store != nil {
		try("close the store", g.store.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if g.written {
		g.log.Info("The gateway has stopped")
	}
	return nil
}

// drain lets the clients go: each front says so in its protocol's way, and
// then its listeners end.
func (g *gateway) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range g.services {
		if len(s.servers) == 0 {
			continue
		}
		wg.Go(func() {
			s.front.Drain(ctx)
			for _, srv := range s.servers {
				if err := srv.Shutdown(ctx); err != nil {
					g.log.Warn("Connections were cut", "front", s.name, "err", err)
				}
			}
		})
	}
	wg.Wait()
}
