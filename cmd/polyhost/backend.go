package main

import (
	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/plugins"
)

// backend is how the gateway starts its built-in agents.
func (p *program) backend() *cobra.Command {
	return &cobra.Command{
		Use:    "backend NAME",
		Short:  "Be the plugin of a built-in agent",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return plugins.ServeBuiltin(args[0]) },
	}
}
