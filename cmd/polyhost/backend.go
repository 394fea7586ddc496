package main

import (
	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/plugins"
)

// backend is how the gateway starts its built-in agents.
func (p *program) backend() *cobra.Command {
	return &cobra.Command{
		Use:    "backend NAME [COMMAND ARGUMENT...]",
		Short:  "Be the plugin of a built-in agent",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		// The arguments of an agent's command are not ours.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return plugins.ServeACP(args[0], args[1:])
			}
			return plugins.ServeBuiltin(args[0])
		},
	}
}
