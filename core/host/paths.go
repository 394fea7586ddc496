package host

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/polyhost/polyhost/core/event"
)

// jail checks the paths of attachments, and makes them absolute.
func jail(dirs []string, attachments []event.Attachment) error {
	for i := range attachments {
		if attachments[i].Path == "" {
			continue
		}
		abs, err := inside(dirs, attachments[i].Path)
		if err != nil {
			return fmt.Errorf("attachment %.80q: %w", attachments[i].Name, err)
		}
		attachments[i].Path = abs
	}
	return nil
}

// inside resolves a path that a client names, absolute or relative to the
// first working directory, to the absolute path of something that exists in
// one of the directories. Symbolic links do not lead out of them.
func inside(dirs []string, path string) (string, error) {
	abs := absolute(dirs, []string{path})[0]
	for _, d := range dirs {
		rel, err := filepath.Rel(d, abs)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(d)
		if err != nil {
			return "", fmt.Errorf("%w: %s cannot be opened", ErrBadDir, d)
		}
		_, err = root.Stat(rel)
		root.Close()
		if err != nil {
			return "", fmt.Errorf("%w: there is no %s in the working directory", ErrInvalid, path)
		}
		return abs, nil
	}
	return "", fmt.Errorf("%w: %s is outside of the working directories", ErrInvalid, path)
}
