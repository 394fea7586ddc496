// Package shellinit makes the file that an agent's shell sources before each of
// its commands. It must not know which agent that is.
//
// The file exists while there is a script; what Source gives is right whether or
// not it does, so an agent is told once, and the script may come and go.
package shellinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// name is the file's, in the folder that its owner chose.
const name = "init.sh"

// Write puts the script for bash into a folder, in place of the one before and
// only for this user to read; without one it takes that away. A command that is
// just beginning reads the one or the other, never a part.
func Write(dir string, scripts event.Scripts) error {
	file, script := filepath.Join(dir, name), scripts.Of(event.Bash)
	if script == "" {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take away the shell's script: %w", err)
		}
		return nil
	}
	err := os.WriteFile(file+".new", []byte(script), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write the shell's script: %w", err)
	}
	return nil
}

// Source is the line that sources what Write put into a folder. What the script
// says on its standard error is dropped; that it failed is printed, and the
// command runs all the same.
func Source(dir string) string {
	file := Quote(filepath.Join(dir, name))
	return "[ ! -f " + file + " ] || . " + file + ` 2>/dev/null || echo "The shell's init script ended with status $?"`
}

// Quote makes a text one word of a shell's line.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
