package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (p *program) sessions() *cobra.Command {
	var all bool
	c := p.withJSON(&cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of the running gateway, newest first",
		Args:  cobra.NoArgs,
	})
	c.Flags().BoolVar(&all, "all", false, "closed, archived and unused ones too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := p.client()
		if err != nil {
			return err
		}
		list, err := client.Sessions(c.Context(), all)
		if err != nil {
			return err
		}
		if p.json {
			return json.NewEncoder(c.OutOrStdout()).Encode(list)
		}
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "SESSION\tSTATUS\tAGENT\tTURNS\tCHANGED\tTITLE")
		for _, s := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, strings.ReplaceAll(string(s.Status), "_", " "), s.Backend,
				s.Turns, s.ModifiedAt.Local().Format(time.DateTime), printable(s.Title))
		}
		return t.Flush()
	}
	return c
}

// printable keeps what a client wrote from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
