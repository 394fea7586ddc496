package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SecretFile is the file in the home that keeps a front's secrets; empty if
// there is no such front.
func SecretFile(front string) string {
	for _, f := range fronts {
		if f.name == front {
			return f.secret
		}
	}
	return ""
}

// Rotate makes a front's secrets new from the next start on.
func Rotate(home, front string) error {
	for _, f := range fronts {
		if f.name != front {
			continue
		}
		if f.rotate != nil {
			return f.rotate(home)
		}
		// The front makes a new one when it finds none.
		err := os.Remove(filepath.Join(home, f.secret))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return fmt.Errorf("there is no front %q", front)
}
