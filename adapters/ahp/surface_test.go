package ahp

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocsShowTheSurface holds the page to the tables that the front is served
// from.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/protocols/ahp.md", "<!-- surface begins -->\n", "<!-- surface ends -->"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the surface")
	}
	want := before + begin + surfaceTable() + end + after
	if want == string(raw) {
		return
	}
	if os.Getenv("POLYHOST_UPDATE_DOCS") == "" {
		t.Fatal("the page is old: run the test with POLYHOST_UPDATE_DOCS=1")
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
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
