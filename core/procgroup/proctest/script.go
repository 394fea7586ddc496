// Package proctest helps tests that start programs.
package proctest

import (
	"os"
	"syscall"
	"testing"
)

// Script writes a program that can be started at once. A process that another
// test starts in the meantime would inherit the open file, and the kernel
// refuses to run a file that somebody has open for writing.
func Script(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
