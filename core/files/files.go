// Package files is the machine's files as clients of a host see them: read,
// listed, written, moved and watched for by path. It knows no protocol and no
// session.
//
// Every path is hostile. It is resolved to where it really leads first; what
// lies in a fence (the gateway's own home, and the file systems in which the
// kernel tells secrets of processes) is refused, and the operation then
// happens through an os.Root of the directory that was found, on one name in
// it. Only regular files are read and written: a pipe or a device is neither
// opened nor waited for.
//
// Writes through one Files are atomic to each other and to its reads, file by
// file. Programs beside the gateway may write at any time; an etag tells
// whether they did.
package files

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Errors. Their wrapped texts name the path and are fit for clients.
var (
	// ErrNotFound: there is no such file or directory.
	ErrNotFound = errors.New("not found")
	// ErrDenied: it is fenced, or the gateway's user may not.
	ErrDenied = errors.New("not permitted")
	// ErrExists: something is there already.
	ErrExists = errors.New("exists already")
	// ErrConflict: the file is not the one whose etag was given.
	ErrConflict = errors.New("changed meanwhile")
	// ErrInvalid: what is there is not of the kind that was asked for, or the
	// request makes no sense for it.
	ErrInvalid = errors.New("not possible")
	// ErrTooLarge: a limit of this package.
	ErrTooLarge = errors.New("too large")
)

// Files serves the files of the machine.
type Files struct {
	fences []string
	seed   maphash.Seed
	locks  [stripes]sync.RWMutex // by path
}

// New serves all that the gateway's user can reach, except what lies in one of
// the private directories, and in the kernel's own file systems.
func New(private ...string) *Files {
	f := &Files{fences: []string{"/proc", "/sys"}, seed: maphash.MakeSeed()}
	for _, p := range private {
		if p == "" {
			continue
		}
		if abs, err := filepath.Abs(p); err == nil {
			f.fences = append(f.fences, abs)
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			f.fences = append(f.fences, real)
		}
	}
	return f
}

// Fenced reports whether a real path is one that nobody is shown.
func (f *Files) Fenced(real string) bool {
	for _, fence := range f.fences {
		if within(fence, real) {
			return true
		}
	}
	return false
}

// surrounds reports whether a directory holds a fence.
func (f *Files) surrounds(real string) bool {
	for _, fence := range f.fences {
		if within(real, fence) {
			return true
		}
	}
	return false
}

// within reports whether path is dir or lies in it; both are clean.
func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// place is a name in a directory that is open.
type place struct {
	root *os.Root
	path string // the real one
	name string // in root
}

func (p *place) close() { p.root.Close() }

// locate finds where a path leads. With follow, a symbolic link at its end is
// followed; without, it is the thing that is meant. What the path names need
// not be there, the directory above it must.
func (f *Files) locate(path string, follow bool) (*place, error) {
	real, err := f.resolve(path, follow)
	if err != nil {
		return nil, err
	}
	if f.Fenced(real) {
		return nil, fmt.Errorf("%w: %s is closed to clients", ErrDenied, path)
	}
	dir, name := filepath.Split(real)
	if name == "" {
		name = "."
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, worded(path, err)
	}
	return &place{root, real, name}, nil
}

func (f *Files) resolve(path string, follow bool) (string, error) {
	switch {
	case !filepath.IsAbs(path) || strings.ContainsRune(path, 0):
		return "", fmt.Errorf("%w: %.200q is not an absolute path", ErrInvalid, path)
	case len(path) > MaxPath:
		return "", fmt.Errorf("%w: a path has at most %d bytes", ErrInvalid, MaxPath)
	}
	path = filepath.Clean(path)
	if follow || path == "/" {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return "", worded(path, err)
			}
			return real, nil
		}
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("%w: %s is a link to nothing", ErrNotFound, path)
		}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", worded(path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// Resolve finds the real path of something that is there.
func (f *Files) Resolve(path string) (string, error) {
	p, err := f.locate(path, true)
	if err != nil {
		return "", err
	}
	defer p.close()
	if _, err := p.root.Lstat(p.name); err != nil {
		return "", worded(path, err)
	}
	return p.path, nil
}

// lock is the one that guards a file.
func (f *Files) lock(real string) *sync.RWMutex {
	return &f.locks[maphash.String(f.seed, real)%stripes]
}

// worded makes of an error of the system one of ours. What the client cannot
// have caused stays as it is, and is nothing to show.
func worded(path string, err error) error {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotFound, path)
	case is(syscall.ENOTDIR):
		return fmt.Errorf("%w: something on the way of %s is no directory", ErrInvalid, path)
	case is(syscall.ENOTEMPTY):
		return fmt.Errorf("%w: %s is not empty", ErrInvalid, path)
	case is(syscall.EISDIR):
		return fmt.Errorf("%w: %s is a directory", ErrInvalid, path)
	case is(syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL):
		return fmt.Errorf("%w: %s is no path that can be followed", ErrInvalid, path)
	case is(fs.ErrExist):
		return fmt.Errorf("%w: %s", ErrExists, path)
	case is(fs.ErrPermission, syscall.EROFS, syscall.EBUSY, syscall.ETXTBSY):
		return fmt.Errorf("%w: %s", ErrDenied, path)
	case is(syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return fmt.Errorf("%w: there is no room for %s", ErrTooLarge, path)
	}
	return err
}

// Allowed reports whether clients may use a path, there or not: nil, or
// ErrDenied with the reason.
func (f *Files) Allowed(path string) error {
	p, err := f.locate(path, true)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		p.close()
	}
	return err
}
