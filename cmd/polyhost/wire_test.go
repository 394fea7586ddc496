package main

import (
	"testing"

	"github.com/polyhost/polyhost/transports/wiretest"
)

// TestWireScripts runs the transcripts of all fronts, and those of the folders
// in POLYHOST_WIRE_SCRIPTS, each against a gateway of its own.
func TestWireScripts(t *testing.T) {
	t.Parallel()
	wiretest.RunFolders(t, polyhost, "../../testdata")
}
