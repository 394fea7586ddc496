package snowpea

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"

	"github.com/polyhost/polyhost/core/event"
)

func approvalForTest() *ask { return &ask{i: &event.Interaction{Kind: event.Approval}} }

// surfaceTable is the method table as the documentation shows it.
func surfaceTable() string {
	var b strings.Builder
	b.WriteString("| method | what for | here |\n| --- | --- | --- |\n")
	served := 0
	for _, name := range slices.Sorted(maps.Keys(surface.Methods)) {
		state := "not_implemented"
		switch {
		case surface.Methods[name].Direction == "s2c":
			state = "sent to clients"
		case handlers[name] != nil || name == "system.hello":
			state = "served"
			served++
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, summaries[name], state)
	}
	fmt.Fprintf(&b, "\n%d of the %d methods that clients may call are served.\n\nCapabilities in `system.hello`: `%s`.\n",
		served, len(surface.Methods)-3, strings.Join(capabilities, "`, `"))
	return b.String()
}

// The table in the docs is made from the method table, so that neither drifts.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	doctest.Table(t, "../../docs/protocols/snowpea.md", "surface", surfaceTable())
}
