package pi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/polyhost/polyhost/core/lines"
)

// copyUpTo writes a conversation up to an entry into a file of its own, for pi
// to fork: the file of a conversation only grows.
func copyUpTo(ctx context.Context, id, place string) (path string, err error) {
	all, err := allKept(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(k kept) bool { return k.id == id })
	if i < 0 {
		return "", fmt.Errorf("pi keeps no conversation %.80q", id)
	}
	from, err := os.Open(all[i].path)
	if err != nil {
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	defer from.Close()
	to, err := os.CreateTemp("", "polyhost-pi-*.jsonl")
	if err != nil {
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	if err := errors.Join(copyEntries(to, from, place), to.Close()); err != nil {
		_ = os.Remove(to.Name())
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	return to.Name(), nil
}

func copyEntries(to io.Writer, from io.Reader, place string) error {
	in := lines.NewReader(from, maxLine)
	for {
		line, err := in.Next()
		if err == io.EOF {
			return errors.New("it has no such place")
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(append(bytes.Clone(line), '\n')); err != nil || entryID(line) == place {
			return err
		}
	}
}

// newest is the id of the last entry of a conversation's file, "" if it cannot
// be told.
func newest(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	tail := make([]byte, min(size, maxTail))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return ""
	}
	tail = bytes.TrimRight(tail, "\n")
	return entryID(tail[bytes.LastIndexByte(tail, '\n')+1:])
}

// entryID is the id of an entry of a conversation; the first line is none.
func entryID(line []byte) string {
	var e entry
	if json.Unmarshal(line, &e) != nil || e.Type == "session" {
		return ""
	}
	return e.ID
}
