// Command polyhost is a gateway that drives agent CLIs and serves each of
// their sessions live over five protocols.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/store"
)

// Exit codes.
const (
	exitError  = 1
	exitLocked = 3 // another gateway has the home
)

func main() {
	err := newRoot().ExecuteContext(context.Background())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "polyhost:", err)
	if errors.Is(err, store.ErrLocked) {
		os.Exit(exitLocked)
	}
	os.Exit(exitError)
}

// program is what the subcommands share.
type program struct {
	source settings.Source
	json   bool
}

func newRoot() *cobra.Command {
	p := new(program)
	root := &cobra.Command{
		Use:           "polyhost",
		Short:         "One agent, every editor: a gateway for agent CLIs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	p.source.BindHome(root.PersistentFlags())
	root.AddCommand(p.serve(), p.status(), p.sessions(), p.tail(), p.call(), p.keys(), p.users(), p.doctor(), p.version(), p.config(), p.backend())
	return root
}

// withJSON adds the flag of commands whose output scripts may read.
func (p *program) withJSON(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&p.json, "json", false, "print JSON")
	return c
}
