package contract

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// Failure is a prompt at which the model's server fails, and what is to be
// told of it.
type Failure struct {
	Name, Prompt string
	// Code is the turn's error code, Want a part of its text, in the agent's
	// own words. Without a code the turn is complete.
	Code, Want string
	// Retries: the agent tries again by itself, and says so.
	Retries bool
}

// Failures plays each failure in a conversation of its own, and then prompts
// for ordinary text, which must come.
func Failures(t *testing.T, open func(*testing.T) agent.Backend, text, want string, list []Failure) {
	for _, f := range list {
		t.Run(f.Name, func(t *testing.T) {
			s := suite{open: open}
			k := s.begin(t)
			k.prompt("t1", f.Prompt)
			frames := k.until(agent.TurnEnd)
			end, retries := last(frames), 0
			for _, n := range frames {
				if n.Kind != agent.Notice {
					continue
				}
				t.Logf("notice %+v", *n.Notice)
				if n.Notice.Code == "retry" {
					retries++
				} else if f.Want != "" && strings.Contains(n.Notice.Text, f.Want) {
					t.Errorf("the error is told twice, once as %+v", *n.Notice)
				}
			}
			switch {
			case f.Code == "":
				k.ended(frames, "t1", event.TurnComplete)
			case end.Status != event.TurnFailed || end.Error == nil || end.Error.Code != f.Code || !strings.Contains(end.Error.Message, f.Want):
				t.Errorf("the turn ended %s, %+v, want %s and %q", end.Status, end.Error, f.Code, f.Want)
			case f.Want != "" && strings.Contains(spoken(frames), f.Want):
				t.Errorf("the error is told twice, once as the agent's words %q", spoken(frames))
			}
			if f.Retries != (retries > 0) {
				t.Errorf("%d retries were told", retries)
			}
			t.Logf("said %q, ended %s %+v", spoken(frames), end.Status, end.Error)
			k.prompt("t2", text)
			after := k.until(agent.TurnEnd)
			k.ended(after, "t2", event.TurnComplete)
			if got := spoken(after); !strings.Contains(got, want) {
				t.Errorf("afterwards it says %q", got)
			}
		})
	}
}
