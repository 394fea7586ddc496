package addon

import (
	"context"
	"path/filepath"

	"github.com/polyhost/polyhost/core/files"
)

// FromFiles reads a plugin in a directory of this machine, which must be one
// that clients may read.
func FromFiles(f *files.Files, dir string) Source { return &machine{f, dir} }

type machine struct {
	files *files.Files
	dir   string
}

func (m *machine) at(path string) string { return filepath.Join(m.dir, filepath.FromSlash(path)) }

func (m *machine) List(ctx context.Context, path string) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := m.files.List(m.at(path))
	if err != nil {
		return nil, err
	}
	if len(list) > MaxFiles {
		return nil, ErrTooLarge
	}
	out := make([]Entry, 0, len(list))
	for _, e := range list {
		info, err := m.files.Stat(filepath.Join(m.at(path), e.Name), false)
		if err != nil {
			return nil, err
		}
		entry := Entry{Name: e.Name}
		switch info.Kind {
		case files.File:
			entry.Kind = File
		case files.Directory:
			entry.Kind = Folder
		}
		out = append(out, entry)
	}
	return out, nil
}

func (m *machine) Read(ctx context.Context, path string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.files.Read(m.at(path))
}
