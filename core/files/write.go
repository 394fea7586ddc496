package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Mode is where a write puts its data.
type Mode int

const (
	// Truncate ends the file at Position and writes from there.
	Truncate Mode = iota
	// Append writes Position bytes before the end and keeps those behind.
	Append
	// Insert writes at Position and keeps what is behind.
	Insert
)

// Write is one write to a file.
type Write struct {
	Data     []byte
	Mode     Mode
	Position int64
	// New refuses a file that is there already.
	New bool
	// IfMatch, if not empty, refuses a file with another etag.
	IfMatch string
}

// Write writes to a file, which is made if it is not there; the directory
// above it must be.
func (f *Files) Write(path string, w Write) error {
	if w.Position < 0 {
		return fmt.Errorf("%w: a position is not negative", ErrInvalid)
	}
	p, err := f.locate(path, true)
	if err != nil {
		return err
	}
	defer p.close()
	mu := f.lock(p.path)
	mu.Lock()
	defer mu.Unlock()
	_, err = p.root.Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if w.IfMatch != "" {
			return fmt.Errorf("%w: there is no %s any more", ErrConflict, path)
		}
		if w.Position > 0 {
			return beyond(path)
		}
		return p.create(path, w.Data)
	case err != nil:
		return worded(path, err)
	case w.New:
		return fmt.Errorf("%w: %s", ErrExists, path)
	}
	flag := os.O_RDWR
	if w.Mode == Append && w.Position == 0 {
		flag = os.O_WRONLY | os.O_APPEND // which also keeps other programs' appends apart
	}
	file, info, err := p.open(path, flag)
	if err != nil {
		return err
	}
	if w.IfMatch != "" && w.IfMatch != etag(info) {
		file.Close()
		return fmt.Errorf("%w: %s", ErrConflict, path)
	}
	return closed(path, file, put(file, path, info.Size(), w))
}

func (p *place) create(path string, data []byte) error {
	file, err := p.root.OpenFile(p.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return worded(path, err)
	}
	_, err = file.Write(data)
	return closed(path, file, err)
}

func closed(path string, file *os.File, err error) error {
	if end := file.Close(); err == nil {
		err = end
	}
	if err != nil {
		return worded(path, err)
	}
	return nil
}

func beyond(path string) error {
	return fmt.Errorf("%w: the position is beyond the end of %s", ErrInvalid, path)
}

// put writes into an open file of a known size.
func put(file *os.File, path string, size int64, w Write) error {
	if w.Position > size {
		return beyond(path)
	}
	at := w.Position
	switch {
	case w.Mode == Append && at == 0:
		_, err := file.Write(w.Data)
		return err
	case w.Mode == Append:
		at = size - at
	case w.Mode == Truncate:
		if err := file.Truncate(at); err != nil {
			return err
		}
		_, err := file.WriteAt(w.Data, at)
		return err
	}
	if size-at > MaxShift {
		return tooLarge(path, MaxShift)
	}
	behind := make([]byte, size-at)
	if _, err := file.ReadAt(behind, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := file.WriteAt(append(w.Data[:len(w.Data):len(w.Data)], behind...), at)
	return err
}

// Mkdir makes a directory and those above it. One that is there is fine.
func (f *Files) Mkdir(path string) error {
	if _, err := f.resolve(path, false); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	// What is there already may be reached by links; what is not has none.
	there, missing := filepath.Clean(path), "."
	for {
		info, err := os.Stat(there)
		if err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%w: %s is not a directory", ErrExists, there)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return worded(path, err)
		}
		if _, err := os.Lstat(there); err == nil {
			return fmt.Errorf("%w: %s is a link to nothing", ErrExists, there)
		}
		missing = filepath.Join(filepath.Base(there), missing)
		there = filepath.Dir(there)
	}
	real, err := filepath.EvalSymlinks(there)
	if err != nil {
		return worded(path, err)
	}
	if f.Fenced(filepath.Join(real, missing)) {
		return fmt.Errorf("%w: %s is closed to clients", ErrDenied, path)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return worded(path, err)
	}
	defer root.Close()
	if err := root.MkdirAll(missing, 0o777); err != nil {
		return worded(path, err)
	}
	return nil
}

// Delete removes a file, a link or a directory: one that is not empty only
// with everything in it.
func (f *Files) Delete(path string, recursive bool) error {
	p, err := f.locate(path, false)
	if err != nil {
		return err
	}
	defer p.close()
	if f.surrounds(p.path) {
		return fmt.Errorf("%w: %s holds what is closed to clients", ErrDenied, path)
	}
	if _, err := p.root.Lstat(p.name); err != nil {
		return worded(path, err)
	}
	mu := f.lock(p.path)
	mu.Lock()
	defer mu.Unlock()
	if recursive {
		err = p.root.RemoveAll(p.name)
	} else {
		err = p.root.Remove(p.name)
	}
	if err != nil {
		return worded(path, err)
	}
	return nil
}
