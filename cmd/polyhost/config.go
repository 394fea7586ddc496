package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/limits"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

func (p *program) config() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration"}
	c.AddCommand(&cobra.Command{
		Use:   "defaults",
		Short: "Print a config file with every setting at its default, and the fixed limits",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			if err := settings.WriteDefaults(out); err != nil {
				return err
			}
			if _, err := fmt.Fprint(out, "\n# What cannot be configured: the limits of each package.\n#\n"); err != nil {
				return err
			}
			return limits.Write(out)
		},
	})
	return c
}
