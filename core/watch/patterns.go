package watch

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

func checkPatterns(list []string) error {
	if len(list) > MaxPatterns {
		return fmt.Errorf("%w: at most %d patterns", ErrInvalid, MaxPatterns)
	}
	for _, p := range list {
		if p == "" || len(p) > MaxPattern || strings.Count(p, "{") > maxBraces || !doublestar.ValidatePattern(p) {
			return fmt.Errorf("%w: pattern %.100q", ErrInvalid, p)
		}
	}
	return nil
}

// relative is a path as patterns see it; "." is the root.
func (t *Watch) relative(path string) string {
	rel, err := filepath.Rel(t.o.Root, path)
	if err != nil {
		return "."
	}
	return filepath.ToSlash(rel)
}

// matches reports whether a pattern means a path, or a directory that it is in.
func matches(patterns []string, rel string) bool {
	for ; rel != "."; rel = path.Dir(rel) {
		for _, p := range patterns {
			if ok, err := doublestar.Match(strings.TrimPrefix(p, "./"), rel); ok && err == nil {
				return true
			}
		}
	}
	return false
}

func (t *Watch) hides(path string) bool { return t.o.Hidden != nil && t.o.Hidden(path) }

// prunes reports whether a directory needs no watch, as nothing in it is told.
func (t *Watch) prunes(dir string) bool { return matches(t.o.Excludes, t.relative(dir)) }

// tells reports whether changes of a path are told.
func (t *Watch) tells(path string) bool {
	rel := t.relative(path)
	if rel == "." {
		return true
	}
	return !matches(t.o.Excludes, rel) && (len(t.o.Includes) == 0 || matches(t.o.Includes, rel))
}
