package plugins

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAgentsThatAreInstalledComeFirst(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := Builtins(); got[0] != "demo" {
		t.Errorf("without any program: %v", got)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got := Builtins(); got[0] != "codex" || !slices.Contains(got, "demo") {
		t.Errorf("with codex: %v", got)
	}
}
