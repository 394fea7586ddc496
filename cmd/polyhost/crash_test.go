package main

import (
	"slices"
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

// TestAKilledGatewayLosesNothingThatWasFinished kills the gateway while one
// turn streams and another waits for an approval.
func TestAKilledGatewayLosesNothingThatWasFinished(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	asking, streaming := h.session(), h.session()
	h.prompt(asking, "say first part\nthink second part\nrun touch never")
	h.until(asking, "approval", approvalOpened)
	h.prompt(streaming, "say finished\nstream 100000 20 1")
	h.until(streaming, "stream", func(e *event.Event) bool { return e.Seq > 40 })

	h.kill()
	eventually(t, "all processes are gone", func() bool { return len(h.processes()) == 0 })
	h.start()

	for session, finished := range map[string][]string{asking: {"first part", "second part"}, streaming: {"finished"}} {
		events := h.until(session, "end", turnEnded)
		if end := events[len(events)-1].Body.(*event.TurnEnded); !end.Synthetic || end.Status == event.TurnComplete {
			t.Errorf("the turn ended as %+v", end)
		}
		var texts []string
		open := map[string]bool{}
		for i, e := range events {
			if e.Seq != uint64(i)+1 {
				t.Fatalf("event %d has number %d", i+1, e.Seq)
			}
			switch b := e.Body.(type) {
			case *event.PartEnded:
				if !b.Cut {
					texts = append(texts, b.Text)
				}
			case *event.InteractionOpened:
				open[b.Interaction.ID.String()] = true
			case *event.InteractionResolved:
				delete(open, b.ID.String())
			}
		}
		if len(open) > 0 {
			t.Errorf("still open: %v", open)
		}
		if len(texts) < len(finished) {
			t.Fatalf("finished parts are %q, want %q", texts, finished)
		}
		for i, want := range finished {
			if texts[i] != want {
				t.Errorf("part %d is %q, want %q", i, texts[i], want)
			}
		}
	}
	s, err := h.console().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Pending.Approvals != 0 || s.Sessions.Total != 2 {
		t.Errorf("status is %+v", s)
	}

	h.prompt(asking, "say again")
	first := false
	events := h.until(asking, "next end", func(e *event.Event) bool {
		second := turnEnded(e) && first
		first = first || turnEnded(e)
		return second
	})
	if end := events[len(events)-1].Body.(*event.TurnEnded); end.Status != event.TurnComplete {
		t.Errorf("the next turn ended as %+v", end)
	}
}

// Prompts that wait were acknowledged: they need nobody to come back for them.
func TestPromptsThatWaitedRunAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	session := h.session()
	h.prompt(session, "sleep 600000")
	h.prompt(session, "say second")
	h.prompt(session, "say third")
	h.kill()
	h.start()

	ends := 0
	events := h.until(session, "third end", func(e *event.Event) bool {
		if turnEnded(e) {
			ends++
		}
		return ends == 3
	})
	var asked, said []string
	for _, e := range events {
		switch b := e.Body.(type) {
		case *event.TurnStarted:
			asked = append(asked, b.Message.Text)
		case *event.PartEnded:
			said = append(said, b.Text)
		}
	}
	if want := []string{"sleep 600000", "say second", "say third"}; !slices.Equal(asked, want) {
		t.Errorf("turns were started for %q, want %q", asked, want)
	}
	if want := []string{"second", "third"}; !slices.Equal(said, want) {
		t.Errorf("the agent said %q, want %q", said, want)
	}
}
