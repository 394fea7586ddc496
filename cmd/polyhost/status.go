package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
)

// client is a client of the gateway that runs on the home.
func (p *program) client() (*console.Client, error) {
	home, err := p.source.Home()
	if err != nil {
		return nil, err
	}
	e, err := endpoints.Read(home)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", home, err)
	}
	return console.NewClient(e.Console), nil
}

func (p *program) status() *cobra.Command {
	return p.withJSON(&cobra.Command{
		Use:   "status",
		Short: "Show what the running gateway is doing, and what waits for an answer",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := p.client()
			if err != nil {
				return err
			}
			s, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			if p.json {
				return json.NewEncoder(c.OutOrStdout()).Encode(s)
			}
			return writeStatus(c.OutOrStdout(), s)
		},
	})
}

func writeStatus(w io.Writer, s console.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	uptime := time.Duration(s.UptimeSeconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(t, "gateway\tpolyhost %s, pid %d, up %v\n", s.Version, s.PID, uptime)
	fmt.Fprintf(t, "home\t%s\n", s.Home)
	if s.Failing != "" {
		fmt.Fprintf(t, "failing\t%s\n", s.Failing)
	}
	by := []string{}
	for _, status := range slices.Sorted(maps.Keys(s.Sessions.ByStatus)) {
		by = append(by, fmt.Sprintf("%d %s", s.Sessions.ByStatus[status], strings.ReplaceAll(string(status), "_", " ")))
	}
	fmt.Fprintf(t, "sessions\t%d (%d in memory)\t%s\n", s.Sessions.Total, s.Sessions.Live, strings.Join(by, ", "))
	fmt.Fprintf(t, "waiting\t%d approvals, %d questions, %d queued messages\n", s.Pending.Approvals, s.Pending.Questions, s.Pending.Queued)
	for _, b := range s.Backends {
		fmt.Fprintf(t, "agent %s\t%s\t%s\n", b.Name, strings.TrimSpace(b.State+" "+b.Version), b.Error)
	}
	fmt.Fprintf(t, "processes\t%s\tof the agents\n", strings.Trim(fmt.Sprint(s.Processes), "[]"))
	for _, f := range s.Fronts {
		fmt.Fprintf(t, "front %s\t%s\t%d connections\n", f.Name, f.Addr, f.Connections)
	}
	return t.Flush()
}
