package main

import (
	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

func (p *program) config() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration"}
	c.AddCommand(&cobra.Command{
		Use:   "defaults",
		Short: "Print a config file with every setting at its default",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return settings.WriteDefaults(c.OutOrStdout())
		},
	})
	return c
}
