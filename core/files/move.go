package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Move renames a file, link or directory. What is at the destination goes,
// unless keep is set: then it is ErrExists.
func (f *Files) Move(ctx context.Context, from, to string, keep bool) error {
	src, dst, err := f.ends(from, to, false)
	if err != nil {
		return err
	}
	defer src.close()
	defer dst.close()
	if src.path == dst.path {
		return nil
	}
	err = f.settle(dst, to, keep, func(name string) error {
		return os.Rename(src.path, filepath.Join(filepath.Dir(dst.path), name))
	})
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	// Another file system: a copy that takes the place of the original.
	if err := f.copyInto(ctx, src, dst, from, to, keep); err != nil {
		return err
	}
	if err := src.root.RemoveAll(src.name); err != nil {
		return worded(from, err)
	}
	return nil
}

// Copy copies a file or a directory with all that is in it; links inside stay
// links. What is at the destination goes, unless keep is set.
func (f *Files) Copy(ctx context.Context, from, to string, keep bool) error {
	src, dst, err := f.ends(from, to, true)
	if err != nil {
		return err
	}
	defer src.close()
	defer dst.close()
	if src.path == dst.path {
		if keep {
			return fmt.Errorf("%w: %s", ErrExists, to)
		}
		return nil
	}
	return f.copyInto(ctx, src, dst, from, to, keep)
}

// ends finds both ends of a move or copy. Neither may lie in the other, and a
// directory that holds a fence is not touched.
func (f *Files) ends(from, to string, follow bool) (src, dst *place, err error) {
	if src, err = f.locate(from, follow); err != nil {
		return nil, nil, err
	}
	if dst, err = f.locate(to, false); err != nil {
		src.close()
		return nil, nil, err
	}
	_, err = src.root.Lstat(src.name)
	switch {
	case err != nil:
		err = worded(from, err)
	case f.surrounds(src.path) || f.surrounds(dst.path):
		err = fmt.Errorf("%w: it holds what is closed to clients", ErrDenied)
	case src.path != dst.path && (within(src.path, dst.path) || within(dst.path, src.path)):
		err = fmt.Errorf("%w: one of %s and %s lies in the other", ErrInvalid, from, to)
	}
	if err != nil {
		src.close()
		dst.close()
		return nil, nil, err
	}
	return src, dst, nil
}

// settle lets make put something under a name beside the destination, and then
// puts it at the destination in one step. What was there is put aside until
// that is done, and put back if it cannot be.
func (f *Files) settle(dst *place, to string, keep bool, make func(name string) error) error {
	mu := f.lock(dst.path)
	mu.Lock()
	defer mu.Unlock()
	_, err := dst.root.Lstat(dst.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := make(dst.name); err != nil {
			return worded(to, err)
		}
		return nil
	case err != nil:
		return worded(to, err)
	case keep:
		return fmt.Errorf("%w: %s", ErrExists, to)
	}
	aside := beside()
	if err := dst.root.Rename(dst.name, aside); err != nil {
		return worded(to, err)
	}
	if err := make(dst.name); err != nil {
		if back := dst.root.Rename(aside, dst.name); back != nil {
			return errors.Join(err, back)
		}
		return worded(to, err)
	}
	if err := dst.root.RemoveAll(aside); err != nil {
		return worded(to, err)
	}
	return nil
}

// beside is a name that nothing else has.
func beside() string { return ".polyhost-" + rand.Text() }

// copyInto copies under another name first, so that a copy that fails leaves
// the destination as it was.
func (f *Files) copyInto(ctx context.Context, src, dst *place, from, to string, keep bool) error {
	part := beside()
	c := copier{ctx: ctx, src: src.root, dst: dst.root}
	err := c.copy(src.name, part)
	if err == nil {
		err = f.settle(dst, to, keep, func(name string) error { return dst.root.Rename(part, name) })
	}
	if err != nil {
		_ = dst.root.RemoveAll(part) // the error that matters is the first
		return worded(from, err)
	}
	return nil
}

// copier copies a tree from one root to another.
type copier struct {
	ctx      context.Context
	src, dst *os.Root
	n        int
}

func (c *copier) copy(from, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.n++; c.n > MaxCopy {
		return fmt.Errorf("%w: more than %d files", ErrTooLarge, MaxCopy)
	}
	info, err := c.src.Lstat(from)
	if err != nil {
		return err
	}
	switch kindOf(info.Mode()) {
	case Directory:
		return c.dir(from, to, info.Mode().Perm())
	case Symlink:
		target, err := c.src.Readlink(from)
		if err != nil {
			return err
		}
		return c.dst.Symlink(target, to)
	case File:
		return c.file(from, to, info.Mode().Perm())
	}
	return fmt.Errorf("%w: %s is not a regular file", ErrInvalid, info.Name())
}

func (c *copier) dir(from, to string, perm fs.FileMode) error {
	// Writable while it is filled.
	if err := c.dst.Mkdir(to, perm|0o700); err != nil {
		return err
	}
	d, err := c.src.Open(from)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(MaxCopy + 1)
	d.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if err := c.copy(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return c.dst.Chmod(to, perm)
}

func (c *copier) file(from, to string, perm fs.FileMode) error {
	in, err := c.src.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.dst.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm|0o200)
	if err != nil {
		return err
	}
	for err == nil {
		if err = c.ctx.Err(); err == nil {
			_, err = io.CopyN(out, in, copyStep)
		}
	}
	if errors.Is(err, io.EOF) {
		err = c.dst.Chmod(to, perm)
	}
	if end := out.Close(); err == nil {
		err = end
	}
	return err
}
