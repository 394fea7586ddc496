package again

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestOnlyWhatFailedIsWordedAgain(t *testing.T) {
	t.Parallel()
	for _, p := range []agent.Prompt{{Text: "mend it"}, {Text: "/compact", Failures: 1}} {
		if got := Prompt(p).Text; got != p.Text {
			t.Errorf("%+v became %q", p, got)
		}
	}
	if got := Prompt(agent.Prompt{Text: "mend it", Failures: 2}).Text; !strings.HasPrefix(got, note) || !strings.HasSuffix(got, "\n\nmend it") {
		t.Errorf("%q", got)
	}
}
