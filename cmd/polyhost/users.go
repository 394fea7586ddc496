package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/core/users"
)

func (p *program) users() *cobra.Command {
	c := &cobra.Command{
		Use:   "users",
		Short: "List the people who can sign in to the gateway, add, change or remove them",
		Long: `List the people who can sign in to the gateway, each with what was granted. Signing
in says who sends a message and whose a session is; it lets nobody in who has not the
front's token, and keeps nobody out. A gateway that starts without a user asks nobody
to sign in.

Who signed in does some things only with a grant, and has none to begin with:
  config:write  to change how much the gateway keeps for clients
  trust:push    to say which folders are trusted
They count from the next time they are needed. Who did not sign in speaks with the
front's token alone, and needs none.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := p.directory()
			if err != nil {
				return err
			}
			all, err := d.Users()
			if err != nil {
				return err
			}
			for _, u := range all {
				line := u.Name
				for _, g := range u.Grants {
					line += " " + string(g)
				}
				if _, err := fmt.Fprintln(c.OutOrStdout(), line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	var granted []string
	add := &cobra.Command{
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
			token, err := users.In(home).Add(args[0], asGrants(granted)...)
			if err != nil {
				return err
			}
			if first {
				fmt.Fprintln(c.ErrOrStderr(), "This is the first user: a running gateway asks people to sign in when it is started again.")
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}
	add.Flags().StringArrayVar(&granted, "grant", nil, "what the user may do that needs a grant; may be given again")
	c.AddCommand(add, &cobra.Command{
		Use:   "grant NAME [GRANT...]",
		Short: "Give a user these grants in place of those there were; without one, take all away",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := p.directory()
			if err != nil {
				return err
			}
			return d.Grant(args[0], asGrants(args[1:])...)
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

func asGrants(words []string) []users.Grant {
	grants := make([]users.Grant, len(words))
	for i, w := range words {
		grants[i] = users.Grant(w)
	}
	return grants
}

func (p *program) directory() (*users.Directory, error) {
	home, err := p.source.Home()
	if err != nil {
		return nil, err
	}
	return users.In(home), nil
}
