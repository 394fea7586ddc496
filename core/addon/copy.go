package addon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Source is where a plugin is read. Paths are relative to it and have slashes;
// "" is the plugin's own folder. The texts of its errors are fit for clients.
type Source interface {
	List(ctx context.Context, path string) ([]Entry, error)
	// Read returns a whole file.
	Read(ctx context.Context, path string) ([]byte, error)
}

// Entry is one name in a folder of a Source.
type Entry struct {
	Name string
	Kind Kind
}

// Kind is what an entry is.
type Kind int

// The kinds of entries. What is Other (a link, a pipe) is refused.
const (
	Other Kind = iota
	File
	Folder
)

// ignored are folders that are no part of a plugin.
var ignored = map[string]bool{".git": true}

// Copy copies a plugin and holds the copy. called is its name where it has none
// of its own, by whom the copy is for: nobody has more than a share of them. ErrFull
// says that there is no room.
func (s *Store) Copy(ctx context.Context, by, called string, src Source) (*Copy, error) {
	ctx, cancel := context.WithTimeout(ctx, CopyWithin)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, inTime(ctx.Err())
	}
	base := filepath.Join(s.dir, unfinished+rand.Text())
	defer os.RemoveAll(base) // it is elsewhere by then, if all went well
	if err := os.Mkdir(base, 0o700); err != nil {
		return nil, fmt.Errorf("copy a plugin: %w", err)
	}
	sum, err := copyInto(ctx, filepath.Join(base, "plugin"), src)
	if err != nil {
		return nil, inTime(err)
	}
	contents, err := read(filepath.Join(base, "plugin"))
	if err != nil {
		return nil, err
	}
	name := folderName(contents.Name, called)
	// The name is where agents find the plugin's own, so it is part of what the
	// copy is.
	sum.Write([]byte(name))
	hash := hex.EncodeToString(sum.Sum(nil))
	id := hash + "/" + name
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.held[id] == nil
	if fresh {
		switch {
		case len(s.held) >= MaxCopies:
			return nil, fmt.Errorf("%w: this host keeps %d already", ErrFull, MaxCopies)
		case s.shares[by] >= MaxShare:
			return nil, fmt.Errorf("%w: this host keeps %d of this client already", ErrFull, MaxShare)
		}
		if err := os.Rename(filepath.Join(base, "plugin"), filepath.Join(base, name)); err != nil {
			return nil, fmt.Errorf("copy a plugin: %w", err)
		}
		at := filepath.Join(s.dir, hash)
		if err := os.RemoveAll(at); err != nil { // one that nobody holds
			return nil, fmt.Errorf("copy a plugin: %w", err)
		}
		if err := os.Rename(base, at); err != nil {
			return nil, fmt.Errorf("copy a plugin: %w", err)
		}
	}
	c, err := s.hold(id)
	if err == nil && fresh {
		s.held[id].by = by
		s.shares[by]++
	}
	return c, err
}

func inTime(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: that took longer than %v", ErrTooLarge, CopyWithin)
	}
	return err
}

// folderName is a name that every agent takes as a plugin's.
func folderName(names ...string) string {
	for _, n := range names {
		clean := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
				return r
			case r == ' ':
				return '-'
			}
			return -1
		}, n)
		clean = strings.TrimLeft(clean, ".-_")
		if clean = clean[:min(len(clean), 64)]; clean != "" {
			return clean
		}
	}
	return "plugin"
}

// writer is a copy being made.
type writer struct {
	root  *os.Root
	src   Source
	sum   hash.Hash
	files int
	bytes int
}

// copyInto copies a source to a new directory. The sum is of all that was
// copied, in the order of its names.
func copyInto(ctx context.Context, dir string, src Source) (hash.Hash, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("copy a plugin: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("copy a plugin: %w", err)
	}
	defer root.Close()
	w := &writer{root: root, src: src, sum: sha256.New()}
	return w.sum, w.folder(ctx, "", 0)
}

func (w *writer) folder(ctx context.Context, at string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%w: its folders lie more than %d deep", ErrTooLarge, MaxDepth)
	}
	entries, err := w.src.List(ctx, at)
	if err != nil {
		return err
	}
	if w.files += len(entries); w.files > MaxFiles {
		return fmt.Errorf("%w: it has more than %d files", ErrTooLarge, MaxFiles)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for i, e := range entries {
		rel := path.Join(at, e.Name)
		switch {
		case !goodName(e.Name):
			return fmt.Errorf("%w: a file in it is called %.80q", ErrInvalid, e.Name)
		case i > 0 && e.Name == entries[i-1].Name:
			return fmt.Errorf("%w: %.80q is there twice", ErrInvalid, rel)
		case e.Kind == Folder && ignored[e.Name]:
			continue
		case e.Kind == Folder:
			if err := w.root.Mkdir(filepath.FromSlash(rel), 0o700); err != nil {
				return written(rel, err)
			}
			err = w.folder(ctx, rel, depth+1)
		case e.Kind == File:
			err = w.file(ctx, rel)
		default:
			return fmt.Errorf("%w: %.200q is neither a file nor a folder: links are not followed", ErrInvalid, rel)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *writer) file(ctx context.Context, rel string) error {
	content, err := w.src.Read(ctx, rel)
	if err != nil {
		return err
	}
	w.bytes += len(content)
	switch {
	case len(content) > MaxFile:
		return fmt.Errorf("%w: %.200q has more than %d bytes", ErrTooLarge, rel, MaxFile)
	case w.bytes > MaxBytes:
		return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, MaxBytes)
	}
	fmt.Fprintf(w.sum, "%d %s\n%d\n", len(rel), rel, len(content))
	w.sum.Write(content)
	mode := fs.FileMode(0o600)
	if bytes.HasPrefix(content, []byte("#!")) { // a source tells of no modes, and a hook may run it
		mode = 0o700
	}
	if err := w.root.WriteFile(filepath.FromSlash(rel), content, mode); err != nil {
		return written(rel, err)
	}
	return nil
}

// goodName reports whether a name is that of one file.
func goodName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxName && utf8.ValidString(name) && !strings.ContainsAny(name, "/\\\x00")
}

// written is why a file could not be written; the system's own words, which
// name paths of this host, are left out.
func written(rel string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %.200q is there twice", ErrInvalid, rel)
	}
	return fmt.Errorf("write the copy of %.200q: %w", rel, err)
}
