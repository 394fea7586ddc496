package cognitio

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Files are those of a working directory that the gateway has sessions in, or
// its own: a request cannot name another. os.Root keeps paths and links inside.

func (c *call) root() (*os.Root, string, error) {
	dir := c.workDir()
	known := dir == canonical(c.f.host.DefaultDir()) || dir == c.f.host.DefaultDir()
	for _, sum := range c.f.host.List(everySession) {
		known = known || inDir(&sum.Info, dir)
	}
	if !known || dir == "" {
		return nil, "", badQuery("directory", "directory: %.200s has no session", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", badQuery("directory", "directory: %.200s cannot be read", dir)
	}
	return root, dir, nil
}

// within is the path of the query, relative to the root.
func (c *call) within(dir string) (string, error) {
	p := c.r.URL.Query().Get("path")
	if rel, err := filepath.Rel(dir, p); err == nil && filepath.IsAbs(p) {
		p = rel
	}
	p = filepath.Clean(filepath.FromSlash(p))
	if strings.ContainsRune(p, 0) || !filepath.IsLocal(p) {
		return "", badQuery("path", "path: %.200q is outside the working directory", c.r.URL.Query().Get("path"))
	}
	return p, nil
}

// fileError is the answer for what the file system says.
func fileError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return notFound("File not found: %.200s", name)
	}
	return badQuery("path", "path: %.200s cannot be read", name)
}

type fileNode struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Absolute string `json:"absolute"`
	Type     string `json:"type"`
	Ignored  bool   `json:"ignored"`
}

func listFiles(c *call) (any, error) {
	root, dir, err := c.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := c.within(dir)
	if err != nil {
		return nil, err
	}
	d, err := root.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer d.Close()
	entries, err := d.ReadDir(maxDirEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError(name, err)
	}
	out := make([]fileNode, 0, len(entries))
	for _, e := range entries {
		n := fileNode{Name: e.Name(), Path: filepath.ToSlash(filepath.Join(name, e.Name())), Absolute: filepath.Join(dir, name, e.Name()), Type: "file"}
		if e.IsDir() {
			n.Type = "directory"
			n.Path += "/"
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b fileNode) int {
		if a.Type != b.Type {
			return strings.Compare(a.Type, b.Type)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

type fileContent struct {
	Type     string `json:"type"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
}

func readFile(c *call) (any, error) {
	root, dir, err := c.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := c.within(dir)
	if err != nil {
		return nil, err
	}
	// Only a regular file may be opened: a pipe would never answer.
	if st, err := root.Stat(name); err != nil {
		return nil, fileError(name, err)
	} else if !st.Mode().IsRegular() {
		return nil, badQuery("path", "path: %.200s is no file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if len(raw) > maxFile {
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, name: "TooLargeError", message: "the file is larger than this server gives"}
	}
	if utf8.Valid(raw) && !slices.Contains(raw, 0) {
		return fileContent{Type: "text", Content: string(raw)}, nil
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = http.DetectContentType(raw)
	}
	return fileContent{Type: "binary", Content: base64.StdEncoding.EncodeToString(raw), Encoding: "base64", MIMEType: kind}, nil
}

// skipped are directories a search for names does not go into.
var skipped = map[string]bool{".git": true, "node_modules": true, ".hg": true, ".svn": true}

// findFiles searches names: a query matches a path that has its characters in
// order; what has them together comes first.
func findFiles(c *call) (any, error) {
	root, _, err := c.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	q := c.r.URL.Query()
	limit, err := c.number("limit", defaultFound)
	if err != nil {
		return nil, err
	}
	query := strings.ToLower(q.Get("query"))
	var close, far []string
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return nil // what cannot be read is not found
		}
		if seen++; seen > maxWalk || c.ctx().Err() != nil {
			return fs.SkipAll
		}
		if d.IsDir() && skipped[d.Name()] {
			return fs.SkipDir
		}
		if kind := q.Get("type"); d.IsDir() && (kind == "file" || q.Get("dirs") == "false") || !d.IsDir() && kind == "directory" {
			return nil
		}
		shown := name
		if d.IsDir() {
			shown += "/"
		}
		switch lower := strings.ToLower(name); {
		case strings.Contains(lower, query):
			close = append(close, shown)
		case inOrder(lower, query):
			far = append(far, shown)
		}
		return nil
	})
	if err != nil {
		return nil, fileError(".", err)
	}
	byLength := func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}
	slices.SortFunc(close, byLength)
	slices.SortFunc(far, byLength)
	out := append(append([]string{}, close...), far...)
	return out[:min(len(out), max(1, min(limit, maxFound)))], nil
}

func inOrder(s, query string) bool {
	for _, r := range query {
		i := strings.IndexRune(s, r)
		if i < 0 {
			return false
		}
		s = s[i+utf8.RuneLen(r):]
	}
	return true
}
