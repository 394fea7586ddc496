package snowpea

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

func approvalForTest() *ask { return &ask{i: &event.Interaction{Kind: event.Approval}} }

const (
	docsPage  = "../../docs/protocols/snowpea.md"
	docsBegin = "<!-- surface: made from the method table; go test -run TestDocs with UPDATE_DOCS=1 writes it -->\n"
	docsEnd   = "<!-- end of surface -->\n"
)

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

func TestDocsListTheSurface(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), docsBegin)
	table, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", docsPage)
	}
	if table == surfaceTable() {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s is out of date: run this test with UPDATE_DOCS=1", docsPage)
	}
	if err := os.WriteFile(docsPage, []byte(before+docsBegin+surfaceTable()+docsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
