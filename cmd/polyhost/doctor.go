package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/doctor"
)

func (p *program) doctor() *cobra.Command {
	c := p.withJSON(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a gateway, and say how to mend it",
		Long: `Look for what is wrong with the configuration, the home, the users, the plugins,
the ports, the store, the disk, the agents and what a gateway that was killed may
have left. Each finding comes with the command that mends it. The exit code is not 0 when
something is wrong. A running gateway is asked and not disturbed.`,
		Args: cobra.NoArgs,
	})
	p.source.Bind(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.source.Load()
		home, _ := p.source.Home() // also of settings that are wrong
		findings := doctor.Examine(c.Context(), s, err, selfCommand(home))
		if p.json {
			err = json.NewEncoder(c.OutOrStdout()).Encode(findings)
		} else {
			err = writeFindings(c.OutOrStdout(), findings)
		}
		if err != nil {
			return err
		}
		bad := 0
		for _, f := range findings {
			if f.State == doctor.Wrong {
				bad++
			}
		}
		if bad > 0 {
			return fmt.Errorf("something is wrong: see the %d findings above", bad)
		}
		return nil
	}
	return c
}

func writeFindings(w io.Writer, findings []doctor.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-5s  %-10s %s\n", f.State, f.Check, f.Detail); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		remedy := "mend it with"
		if f.State == doctor.Good { // nothing is wrong: an agent that nobody has installed
			remedy = "if you want it"
		}
		if _, err := fmt.Fprintf(w, "       %-10s %s: %s\n", "", remedy, f.Fix); err != nil {
			return err
		}
	}
	return nil
}
