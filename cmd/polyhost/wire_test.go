package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// TestWireScripts runs the transcripts of all fronts, and those of the folders
// in POLYHOST_WIRE_SCRIPTS, each against a gateway of its own.
func TestWireScripts(t *testing.T) {
	t.Parallel()
	wiretest.RunFolders(t, judged{polyhost}, "../../testdata")
}

// judged has every frame of the front ahp held against its protocol's shapes.
type judged struct{ *wiretest.Binary }

func (judged) Judge(front string) wiretest.Judge {
	if front == "ahp" {
		return new(strict.Log)
	}
	return nil
}

// TestTheFirstScriptOfTheManual runs what a reader of docs/testing.md would
// copy first.
func TestTheFirstScriptOfTheManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "\n```\n")
	script, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("the manual has no script")
	}
	file := filepath.Join(t.TempDir(), "first.txtar")
	if err := os.WriteFile(file, []byte(script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wiretest.RunFile(t, judged{polyhost}, file, "snowpea")
}
