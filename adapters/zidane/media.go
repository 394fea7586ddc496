package zidane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// tickets let a page load media by address while a connection is open. They
// are kept as hashes: a look-up says nothing about a ticket by its time.
type tickets struct {
	mu     sync.Mutex
	byConn map[*conn]map[[sha256.Size]byte]bool
	uses   map[[sha256.Size]byte]int // connections that hold it
}

func newTickets() *tickets {
	return &tickets{byConn: map[*conn]map[[sha256.Size]byte]bool{}, uses: map[[sha256.Size]byte]int{}}
}

// add registers a ticket; false means that the connection has too many.
func (t *tickets) add(c *conn, ticket string) bool {
	h := sha256.Sum256([]byte(ticket))
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.byConn[c]
	if own == nil {
		own = map[[sha256.Size]byte]bool{}
		t.byConn[c] = own
	}
	if own[h] {
		return true
	}
	if len(own) >= maxTickets {
		return false
	}
	own[h] = true
	t.uses[h]++
	return true
}

// drop takes back the tickets of a connection.
func (t *tickets) drop(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.byConn[c] {
		if t.uses[h]--; t.uses[h] == 0 {
			delete(t.uses, h)
		}
	}
	delete(t.byConn, c)
}

func (t *tickets) good(ticket string) bool {
	h := sha256.Sum256([]byte(ticket))
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.uses[h] > 0
}

func filesMediaTicket(_ context.Context, c *call, p struct {
	Ticket string `json:"ticket" jsonx:"required"`
}) (any, error) {
	if len(p.Ticket) < minTicket || len(p.Ticket) > maxTicket || strings.Trim(p.Ticket, urlSafe) != "" {
		return nil, badField("ticket", "want %d to %d characters of A-Z, a-z, 0-9, - and _", minTicket, maxTicket)
	}
	if !c.Front.tickets.add(c.conn, p.Ticket) {
		return nil, failed("This connection has %d tickets already.", maxTickets)
	}
	return okResult{true}, nil
}

const urlSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// mediaTypes are the types that are served, by the ending of a name.
var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif",
	".svg": "image/svg+xml", ".bmp": "image/bmp", ".ico": "image/x-icon", ".tif": "image/tiff", ".tiff": "image/tiff",
	".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime", ".ogv": "video/ogg", ".mkv": "video/x-matroska",
	".mp3": "audio/mpeg", ".m4a": "audio/mp4", ".aac": "audio/aac", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg",
	".wav": "audio/wav", ".flac": "audio/flac",
}

// serveMedia serves an image, video or sound of a folder in the roots. Only
// the ticket opens it, and whatever is wrong with the path reads the same.
func (f *Front) serveMedia(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !f.tickets.good(q.Get("ticket")) {
		answer(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	file, kind := f.openMedia(q.Get("cwd"), q.Get("path"), q.Get("side"))
	if file == nil {
		answer(w, http.StatusNotFound, "Not Found")
		return
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		answer(w, http.StatusNotFound, "Not Found")
		return
	}
	h := w.Header()
	from, length, status := mediaRange(r.Header.Get("Range"), st.Size())
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", st.Size()))
		answer(w, status, "Range Not Satisfiable")
		return
	case http.StatusRequestEntityTooLarge:
		answer(w, status, "Too large: ask for a range")
		return
	case http.StatusPartialContent:
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+length-1, st.Size()))
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Cache-Control", "private, no-cache")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.Copy(w, io.NewSectionReader(file, from, length))
}

// openMedia opens a file of a media type inside cwd. The sides of a git change
// are not served.
func (f *Front) openMedia(cwd, path, side string) (*os.File, string) {
	kind := mediaTypes[strings.ToLower(filepath.Ext(path))]
	if kind == "" || side != "" || cwd == "" {
		return nil, ""
	}
	dir, err := f.workDir(cwd)
	if err != nil {
		return nil, ""
	}
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(dir, filepath.Clean(path)); err != nil {
			return nil, ""
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, ""
	}
	defer root.Close()
	if st, err := root.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil, "" // before it is opened: opening a pipe would wait
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, ""
	}
	return file, kind
}

// mediaRange says which bytes of a file of some size to send, and the status.
// A range longer than maxMedia is cut short. More than one range is answered
// as if there were none.
func mediaRange(header string, size int64) (from, length int64, status int) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		if size > maxMedia {
			return 0, 0, http.StatusRequestEntityTooLarge
		}
		return 0, size, http.StatusOK
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return 0, 0, http.StatusRequestedRangeNotSatisfiable
	}
	end := size - 1
	if first == "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil || n == 0 {
			return 0, 0, http.StatusRequestedRangeNotSatisfiable
		}
		from = max(0, size-int64(n))
	} else {
		n, err := strconv.ParseUint(first, 10, 63)
		if err != nil {
			return 0, 0, http.StatusRequestedRangeNotSatisfiable
		}
		from = int64(n)
		if last != "" {
			m, err := strconv.ParseUint(last, 10, 63)
			if err != nil || m < n {
				return 0, 0, http.StatusRequestedRangeNotSatisfiable
			}
			end = min(end, int64(m))
		}
	}
	if from > end {
		return 0, 0, http.StatusRequestedRangeNotSatisfiable
	}
	return from, min(end-from+1, maxMedia), http.StatusPartialContent
}
