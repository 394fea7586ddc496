// Package doctest holds the tables of the documentation to the code that they
// are made from, so that neither drifts. It is for tests.
package doctest

import (
	"os"
	"strings"
	"testing"
)

// update is the environment variable that has old tables written anew.
const update = "POLYHOST_UPDATE_DOCS"

// Table fails the test unless a page has the given text between its two
// comments `<!-- NAME begins -->` and `<!-- NAME ends -->`. With
// POLYHOST_UPDATE_DOCS set it puts the text there.
func Table(t *testing.T, page, name, text string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" begins -->\n", "<!-- "+name+" ends -->"
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the %s", page, name)
	}
	want := before + begin + text + end + after
	if want == string(raw) {
		return
	}
	if os.Getenv(update) == "" {
		t.Fatalf("%s is old: run the test with %s=1", page, update)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
