package ahp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"
)

// TestDocsShowTheSurface holds the page to the tables that the front is served
// from.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	doctest.Table(t, "../../docs/protocols/ahp.md", "surface", surfaceTable())
}

func surfaceTable() string {
	var b strings.Builder
	served := 0
	for _, m := range methods {
		if m.run != nil {
			served++
		}
	}
	fmt.Fprintf(&b, "%d methods of clients, %d served.\n\n| method | |\n| --- | --- |\n", len(methods), served)
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		state := "not_implemented: -32601"
		if methods[name].run != nil {
			state = "served"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, state)
	}
	b.WriteString("\nActions that a client may dispatch:\n\n| action | on the channel of |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		on := "a session"
		if actions[name].on == onChat {
			on = "a chat"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, on)
	}
	for _, name := range slices.Sorted(maps.Keys(noteActions)) {
		fmt.Fprintf(&b, "| `%s` | a session's annotations |\n", name)
	}
	b.WriteString("| `root/configChanged` | the root |\n")
	for _, name := range slices.Sorted(maps.Keys(terminalActions)) {
		fmt.Fprintf(&b, "| `%s` | a terminal |\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(automationActions)) {
		fmt.Fprintf(&b, "| `%s` | the automations |\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(runActions)) {
		fmt.Fprintf(&b, "| `%s` | a run of an automation |\n", name)
	}
	b.WriteString("| `changeset/filesReviewChanged` | a changeset |\n")
	return b.String()
}
