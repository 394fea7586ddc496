package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/core/users"
)

func (p *program) users() *cobra.Command {
	c := &cobra.Command{
		Use:   "users",
		Short: "List the people who can sign in to the gateway, add or remove them",
		Long: `List the people who can sign in to the gateway. Signing in says who sends a message
and whose a session is; it lets nobody in who has not the front's token, and keeps
nobody out. A gateway that starts without a user asks nobody to sign in.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := p.directory()
			if err != nil {
				return err
			}
			names, err := d.Names()
			if err == nil && len(names) > 0 {
				_, err = fmt.Fprintln(c.OutOrStdout(), strings.Join(names, "\n"))
			}
			return err
		},
	}
	c.AddCommand(&cobra.Command{
		Use:   "add NAME",
		Short: "Add a user and print the token, once",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := p.source.Home()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			first := !users.In(home).Exists()
			token, err := users.In(home).Add(args[0])
			if err != nil {
				return err
			}
			if first {
				fmt.Fprintln(c.ErrOrStderr(), "This is the first user: a running gateway asks people to sign in when it is started again.")
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}, &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user, who stays signed in until the connection ends",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := p.directory()
			if err != nil {
				return err
			}
			return d.Remove(args[0])
		},
	})
	return c
}

func (p *program) directory() (*users.Directory, error) {
	home, err := p.source.Home()
	if err != nil {
		return nil, err
	}
	return users.In(home), nil
}
