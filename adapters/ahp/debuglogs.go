package ahp

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/logs"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

const (
	kindArchive   = "archive"
	kindDirectory = "directory"

	hostLogEntry = "agenthost/polyhost.log"
	recordEntry  = "events.jsonl"
)

// bundles are what was collected for reports of bugs. Each lies in a folder of
// its own outside of the home, which clients may not read, for a while.
type bundles struct {
	book *logs.Book

	mu     sync.Mutex
	closed bool
	all    []*bundle // the oldest first
}

type bundle struct {
	dir     string // to remove
	archive string // the path of the archive; "" for a folder
	expiry  *time.Timer
}

type bundleEntry struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// collectLogs packs the host's log, and the agent's own record of a session if
// one is named.
func (c *conn) collectLogs(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Session string `json:"session"`
		Chat    string `json:"chat"`
		Kind    string `json:"kind" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if p.Kind != kindArchive && p.Kind != kindDirectory {
		return nil, invalid("kind: want %s or %s", kindArchive, kindDirectory)
	}
	if p.Chat != "" && p.Session == "" {
		return nil, invalid("session: must be there with chat")
	}
	record := ""
	if p.Session != "" {
		var err error
		if record, err = c.recordOf(ctx, p.Session, p.Chat); err != nil {
			return nil, err
		}
	}
	b := c.front.bundles
	dir, err := os.MkdirTemp("", "polyhost-logs-")
	if err != nil {
		return nil, fmt.Errorf("collect logs: %w", err)
	}
	made := &bundle{dir: dir}
	entries, err := b.fill(dir, record)
	if err == nil && p.Kind == kindArchive {
		made.archive, err = pack(dir, entries)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("collect logs: %w", err), os.RemoveAll(dir))
	}
	var whole int64
	for _, e := range entries {
		whole += e.Size
	}
	size, resource := whole, dir
	if made.archive != "" {
		info, err := os.Stat(made.archive)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("collect logs: %w", err), os.RemoveAll(dir))
		}
		size, resource = info.Size(), made.archive
	}
	if err := b.keep(made); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return struct {
		Kind     string        `json:"kind"`
		Resource string        `json:"resource"`
		Record   bool          `json:"providerLogsIncluded"`
		Size     int64         `json:"size"`
		Whole    int64         `json:"uncompressedSize"`
		Entries  []bundleEntry `json:"entries"`
	}{p.Kind, fileURI(resource), len(entries) > 1, size, whole, entries}, nil
}

// fill writes the files of a bundle.
func (b *bundles) fill(dir, record string) ([]bundleEntry, error) {
	if err := os.Mkdir(filepath.Join(dir, filepath.Dir(hostLogEntry)), 0o700); err != nil {
		return nil, err
	}
	log := b.book.Lines()
	if err := os.WriteFile(filepath.Join(dir, hostLogEntry), log, 0o600); err != nil {
		return nil, err
	}
	entries := []bundleEntry{{hostLogEntry, int64(len(log))}}
	if record == "" {
		return entries, nil
	}
	n, err := copyEnd(filepath.Join(dir, recordEntry), record)
	if err != nil {
		return nil, err
	}
	return append(entries, bundleEntry{recordEntry, n}), nil
}

// copyEnd copies a file, or the end of one that is too long.
func copyEnd(to, from string) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if over := info.Size() - maxRecord; over > 0 {
		if _, err := in.Seek(over, io.SeekStart); err != nil {
			return 0, err
		}
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxRecord))
	return n, errors.Join(err, out.Close())
}

// pack makes an archive of the entries, in their folder.
func pack(dir string, entries []bundleEntry) (path string, err error) {
	path = filepath.Join(dir, "polyhost-logs.zip")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := zip.NewWriter(out)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.Path, Method: zip.Deflate, Modified: time.Now()})
		if err != nil {
			return "", err
		}
		in, err := os.Open(filepath.Join(dir, e.Path))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(w, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return "", err
		}
	}
	return path, z.Close()
}

// keep keeps a bundle for a while, and no more of them than a few.
func (b *bundles) keep(made *bundle) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errStopping
	}
	made.expiry = time.AfterFunc(bundleFor, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.all, made); i >= 0 {
			b.all = slices.Delete(b.all, i, i+1)
			_ = os.RemoveAll(made.dir)
		}
	})
	b.all = append(b.all, made)
	if len(b.all) > maxBundles {
		b.all[0].remove()
		b.all = slices.Delete(b.all, 0, 1)
	}
	return nil
}

func (m *bundle) remove() {
	m.expiry.Stop()
	_ = os.RemoveAll(m.dir) // what stays is in a folder for such things
}

// close removes all bundles.
func (b *bundles) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, m := range b.all {
		m.remove()
	}
	b.all = nil
}

// readLogs reads a piece of an archive that this host made.
func (c *conn) readLogs(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Resource string `json:"resource" jsonx:"required"`
		Position *int64 `json:"position" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if *p.Position < 0 {
		return nil, invalid("position: must not be negative")
	}
	b := c.front.bundles
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.all, func(m *bundle) bool { return m.archive != "" && fileURI(m.archive) == p.Resource })
	if i < 0 {
		return nil, invalid("resource: no archive that this host has made and still keeps")
	}
	f, err := os.Open(b.all[i].archive)
	if err != nil {
		return nil, fmt.Errorf("read collected logs: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read collected logs: %w", err)
	}
	data := make([]byte, max(0, min(bundlePiece, info.Size()-*p.Position)))
	if n, err := f.ReadAt(data, *p.Position); err != nil && !(errors.Is(err, io.EOF) && n == len(data)) {
		return nil, fmt.Errorf("read collected logs: %w", err)
	}
	return struct {
		Data []byte `json:"data"`
		EOF  bool   `json:"eof"`
	}{data, *p.Position+int64(len(data)) >= info.Size()}, nil
}
