// Package again words a message that an agent gets once more because its turn
// on it failed. The agents have no command for that: they get the message again,
// with a word on how to take it, and what they remember of the turn does the
// rest. It must not know any agent.
package again

import (
	"strings"

	"github.com/polyhost/polyhost/core/agent"
)

// note stands before the message. It also holds where the agent remembers
// nothing, as its program ended before it wrote anything down.
const note = "[Your last turn on the following message broke off with an error. Go on with it from where you were, " +
	"and do nothing again that is done already; if you have not begun, begin.]\n\n"

// Prompt is the prompt as the agent is to get it. A command of the agent's own
// is run again as it is.
func Prompt(p agent.Prompt) agent.Prompt {
	if p.Failures > 0 && !strings.HasPrefix(p.Text, "/") {
		p.Text = note + p.Text
	}
	return p
}
