package host_test

import (
	"testing"

	"github.com/polyhost/polyhost/core/host"
)

// A client that answers a question the moment it hears of it may be quicker
// than the list of sessions.
func TestASessionThatRunsMayHaveAskedAlready(t *testing.T) {
	for want, sums := range map[bool][]host.Summary{
		true:  {{Status: host.Running}, {Status: host.AwaitingApproval, Approvals: 1}, {Status: host.AwaitingQuestion, Questions: 1}},
		false: {{Status: host.Idle}, {Status: host.Failed}},
	} {
		for _, s := range sums {
			if s.MayAsk() != want {
				t.Errorf("%+v: %v", s, !want)
			}
		}
	}
}
