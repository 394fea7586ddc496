package boltstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/store"
)

// temporary is how the name of a blob ends that is being written.
const temporary = ".tmp"

// PutBlob implements store.Store.
func (s *Store) PutBlob(ctx context.Context, data []byte) (string, error) {
	if err := s.usable(ctx); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	dir := filepath.Join(s.dir, blobDir)
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		if err := writeBlob(dir, name, data); err != nil {
			return "", err
		}
	}
	// Also when the file was there: who made it may not have synced yet.
	return name, syncDir(dir)
}

func writeBlob(dir, name string, data []byte) (err error) {
	f, err := os.CreateTemp(dir, "*"+temporary)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, name))
}

// Blob implements store.Store.
func (s *Store) Blob(ctx context.Context, name string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if b, err := hex.DecodeString(name); err != nil || len(b) != sha256.Size {
		return nil, store.ErrNotFound
	}
	data, err := os.ReadFile(filepath.Join(s.dir, blobDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, store.ErrNotFound
	}
	return data, err
}

func (s *Store) usable(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.writerDone:
		return store.ErrClosed
	default:
		return nil
	}
}

// sweepBlobs removes what a crash left half written.
func sweepBlobs(dir string) error {
	files, err := os.ReadDir(filepath.Join(dir, blobDir))
	for _, f := range files {
		if strings.HasSuffix(f.Name(), temporary) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, blobDir, f.Name())))
		}
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
