package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/gateway"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

// frontKeys are the secrets of one front.
type frontKeys struct {
	Front string `json:"front"`
	// File keeps them.
	File string `json:"file"`
	// Values are the fields of endpoints.json that let a client in.
	Values map[string]string `json:"values"`
}

func (p *program) keys() *cobra.Command {
	c := p.withJSON(&cobra.Command{
		Use:   "keys [FRONT [FIELD]]",
		Short: "Show the secrets of the fronts, or make new ones",
		Long: `Show the secrets that let clients in: all of them, those of one front, or one
alone, for use in a script. They are those of the running gateway.`,
		Args: cobra.MaximumNArgs(2),
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		list, err := p.readKeys(args)
		if err != nil {
			return err
		}
		return writeKeys(c.OutOrStdout(), list, len(args) == 2, p.json)
	}
	c.AddCommand(&cobra.Command{
		Use:   "rotate FRONT...",
		Short: "Make new secrets for fronts, from the next start on",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, fronts []string) error {
			home, err := p.source.Home()
			if err != nil {
				return err
			}
			for _, front := range fronts {
				if gateway.SecretFile(front) == "" {
					return fmt.Errorf("there is no front %q", front)
				}
			}
			for _, front := range fronts {
				if err := gateway.Rotate(home, front); err != nil {
					return fmt.Errorf("rotate %s: %w", front, err)
				}
			}
			text := "New secrets are made at the next start."
			if _, err := endpoints.Read(home); err == nil {
				text = "The running gateway takes the old secrets until it is started again; then there are new ones."
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	})
	return c
}

// readKeys reads the secrets that args pick: front, then field.
func (p *program) readKeys(args []string) ([]frontKeys, error) {
	home, err := p.source.Home()
	if err != nil {
		return nil, err
	}
	e, err := endpoints.Read(home)
	if err != nil {
		return nil, err
	}
	entries := maps.Clone(e.Fronts)
	if entries[console.Name], err = json.Marshal(e.Console); err != nil {
		return nil, err
	}
	var list []frontKeys
	for _, name := range append(slices.Clone(settings.Fronts), console.Name) {
		entry, ok := entries[name]
		if !ok || len(args) > 0 && args[0] != name {
			continue
		}
		k := frontKeys{Front: name, File: filepath.Join(home, gateway.SecretFile(name))}
		if err := json.Unmarshal(entry, &k.Values); err != nil {
			return nil, fmt.Errorf("read %s: %w", endpoints.File, err)
		}
		maps.DeleteFunc(k.Values, func(field, _ string) bool {
			return strings.HasSuffix(field, "url") || len(args) > 1 && args[1] != field
		})
		if len(args) > 1 && len(k.Values) == 0 {
			return nil, fmt.Errorf("front %s has no secret %q", name, args[1])
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the running gateway does not serve %q", args[0])
	}
	return list, nil
}

func writeKeys(w io.Writer, list []frontKeys, alone, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var errs []error
	for _, k := range list {
		for _, field := range slices.Sorted(maps.Keys(k.Values)) {
			var err error
			if alone {
				_, err = fmt.Fprintln(w, k.Values[field])
			} else {
				_, err = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Front, field, k.Values[field], k.File)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, t.Flush())...)
}
