package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/core/event"
)

func (p *program) tail() *cobra.Command {
	var (
		after  uint64
		follow bool
	)
	c := p.withJSON(&cobra.Command{
		Use:   "tail SESSION",
		Short: "Follow the events of a session",
		Long: `Follow the events of a session, from its first one on. SESSION is an id or the
beginning of one. With --json each line is an event as it is stored.`,
		Args: cobra.ExactArgs(1),
	})
	c.Flags().Uint64Var(&after, "after", 0, "begin after the event of this number")
	c.Flags().BoolVarP(&follow, "follow", "f", true, "go on when the session's last event was shown")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := p.client()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt)
		defer stop()
		session, err := findSession(ctx, client, args[0])
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		return client.Tail(ctx, session, after, follow, func(e *event.Event, raw []byte) error {
			if p.json || e.Body == nil {
				_, err := fmt.Fprintf(out, "%s\n", raw)
				return err
			}
			if d, ok := e.Body.(*event.PartDelta); ok && d.Part.IsNil() {
				return nil // a number that a crash took
			}
			_, err := fmt.Fprintf(out, "%6d  %s  %-20s %s\n", e.Seq, e.At.Local().Format(time.TimeOnly), e.Body.Kind(), printable(describe(e.Body)))
			return err
		})
	}
	return c
}

// findSession completes the beginning of an id.
func findSession(ctx context.Context, client *console.Client, prefix string) (string, error) {
	list, err := client.Sessions(ctx, true)
	if err != nil {
		return "", err
	}
	var found []string
	for _, s := range list {
		if strings.HasPrefix(s.ID.String(), strings.ToLower(prefix)) {
			found = append(found, s.ID.String())
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no session %s: `polyhost sessions --all` lists them", prefix)
	}
	return "", errors.New("more than one session begins so: " + strings.Join(found[:min(len(found), 5)], ", "))
}

// describe says in a line what an event is about.
func describe(b event.Body) string {
	switch b := b.(type) {
	case *event.SessionCreated:
		return b.Info.Backend + " in " + strings.Join(b.Info.Dirs, ", ")
	case *event.TurnStarted:
		return b.Message.Text
	case *event.TurnEnded:
		s := string(b.Status)
		if b.Error != nil {
			s += ": " + b.Error.Message
		}
		if b.Synthetic {
			s += " (a restart cut it off)"
		}
		return s
	case *event.MessageQueued:
		return b.Message.Text
	case *event.PartStarted:
		if b.Part.Tool != nil {
			return string(b.Part.Kind) + " " + b.Part.Tool.Name
		}
		return string(b.Part.Kind)
	case *event.PartDelta:
		return b.Text
	case *event.ToolReady:
		return b.Title
	case *event.ToolEnded:
		return string(b.Status)
	case *event.InteractionOpened:
		return string(b.Interaction.Kind) + ": " + b.Interaction.Title
	case *event.InteractionResolved:
		return fmt.Sprintf("%s: %s by %s", b.Of, b.Resolution.Outcome, b.Resolution.By.Front)
	}
	return ""
}
