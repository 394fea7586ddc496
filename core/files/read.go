package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what a path names.
type Kind string

const (
	File      Kind = "file"
	Directory Kind = "directory"
	Symlink   Kind = "symlink"
	// Special is a pipe, socket or device: it is listed, and nothing else.
	Special Kind = "special"
)

func kindOf(m fs.FileMode) Kind {
	switch {
	case m.IsRegular():
		return File
	case m.IsDir():
		return Directory
	case m&fs.ModeSymlink != 0:
		return Symlink
	}
	return Special
}

// Info is what is known of a path.
type Info struct {
	// Path is the real one, or the one that was asked for when links were not
	// followed.
	Path    string
	Kind    Kind
	Size    int64
	ModTime time.Time
	// Born is zero when the file system does not say.
	Born time.Time
	// ETag changes with a file's content; only files have one.
	ETag string
}

// Read returns a whole file of at most MaxRead bytes.
func (f *Files) Read(path string) ([]byte, error) {
	p, err := f.locate(path, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	mu := f.lock(p.path)
	mu.RLock()
	defer mu.RUnlock()
	file, _, err := p.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxRead+1))
	switch {
	case err != nil:
		return nil, worded(path, err)
	case len(b) > MaxRead:
		return nil, tooLarge(path, MaxRead)
	}
	return b, nil
}

func tooLarge(path string, limit int) error {
	return fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, path, limit)
}

// open opens a regular file. What is none is not opened at all, and should it
// become one in between, is not waited for.
func (p *place) open(path string, flag int) (*os.File, fs.FileInfo, error) {
	info, err := p.root.Stat(p.name)
	if err != nil {
		return nil, nil, worded(path, err)
	}
	if err := regular(path, info); err != nil {
		return nil, nil, err
	}
	file, err := p.root.OpenFile(p.name, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, worded(path, err)
	}
	if info, err = file.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func regular(path string, info fs.FileInfo) error {
	switch kindOf(info.Mode()) {
	case File:
		return nil
	case Directory:
		return fmt.Errorf("%w: %s is a directory", ErrInvalid, path)
	}
	return fmt.Errorf("%w: %s is not a regular file", ErrInvalid, path)
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	// Dir is true for directories and for links to them.
	Dir bool
}

// List returns what a directory holds, in the order of the names.
func (f *Files) List(path string) ([]Entry, error) {
	p, err := f.locate(path, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	info, err := p.root.Stat(p.name)
	if err != nil {
		return nil, worded(path, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is not a directory", ErrInvalid, path)
	}
	dir, err := p.root.Open(p.name)
	if err != nil {
		return nil, worded(path, err)
	}
	defer dir.Close()
	out := []Entry{}
	for {
		batch, err := dir.ReadDir(1000)
		for _, e := range batch {
			entry := Entry{Name: e.Name(), Dir: e.IsDir()}
			if e.Type()&fs.ModeSymlink != 0 {
				target, err := os.Stat(filepath.Join(p.path, e.Name()))
				entry.Dir = err == nil && target.IsDir()
			}
			out = append(out, entry)
		}
		if len(out) > MaxEntries {
			return nil, fmt.Errorf("%w: %s has more than %d entries", ErrTooLarge, path, MaxEntries)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, worded(path, err)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Stat tells of a path. With follow, of what it leads to.
func (f *Files) Stat(path string, follow bool) (Info, error) {
	p, err := f.locate(path, follow)
	if err != nil {
		return Info{}, err
	}
	defer p.close()
	info, err := p.root.Lstat(p.name)
	if err != nil {
		return Info{}, worded(path, err)
	}
	out := Info{Path: p.path, Kind: kindOf(info.Mode()), Size: info.Size(), ModTime: info.ModTime(), Born: born(p.path)}
	if !follow {
		out.Path = filepath.Clean(path)
	}
	if out.Kind == File {
		out.ETag = etag(info)
	}
	return out, nil
}

func born(real string) time.Time {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, real, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(x.Btime.Sec, int64(x.Btime.Nsec))
}

// etag is of what changes with every write: which file it is, how long, and
// when its content and its node changed.
func etag(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%x-%x-%x-%x", s.Ino, info.Size(), info.ModTime().UnixNano(), s.Ctim.Nano())
}
