package snowpea

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type pathRow struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Size *int64 `json:"size"`
}

// neverComplete are folders nobody wants to complete into.
var neverComplete = map[string]bool{".git": true, "node_modules": true, ".venv": true, "__pycache__": true}

// fileComplete completes a path under a working directory.
func fileComplete(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID *string `json:"sessionId"`
		Workdir   *string `json:"workdir"`
		Query     string  `json:"query"`
		Limit     *int64  `json:"limit"`
	}](r)
	if err != nil {
		return nil, err
	}
	var dir string
	switch {
	case p.SessionID != nil:
		_, s, _, err := c.front.lookup(ctx, *p.SessionID)
		if err != nil {
			return nil, err
		}
		dir = firstDir(s.State().Info.Dirs)
	case p.Workdir != nil:
		if dir, err = workdir(*p.Workdir); err != nil {
			return nil, err
		}
	default:
		return nil, invalid("workdir", "is needed, or a sessionId")
	}
	query := filepath.ToSlash(p.Query)
	if clean := path.Clean(query); clean == ".." || strings.HasPrefix(clean, "../") || path.IsAbs(clean) {
		return nil, invalid("query", "leaves the working directory")
	}
	limit := int64(completeDefault)
	if p.Limit != nil {
		limit = min(max(*p.Limit, 1), completeMax)
	}
	rows := []pathRow{}
	if !slices.Contains(strings.Split(query, "/"), "..") {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, invalid("workdir", "%s cannot be read", dir)
		}
		defer root.Close()
		rows = completions(root.FS(), query)
	}
	truncated := int64(len(rows)) > limit
	return map[string]any{"entries": rows[:min(int64(len(rows)), limit)], "truncated": truncated}, nil
}

// completions lists what fits: with a slash the children of that folder, else
// everything below, best fit first.
func completions(tree fs.FS, query string) []pathRow {
	dir, last := path.Split(query)
	hidden := strings.HasPrefix(last, ".")
	if dir != "" || last == "" {
		return children(tree, path.Clean("./"+dir), strings.ToLower(last), hidden)
	}
	type match struct {
		row   pathRow
		class int
	}
	var found []match
	seen := 0
	want := strings.ToLower(last)
	_ = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error { // what cannot be read is left out
		if seen++; seen > completeWalk {
			return fs.SkipAll
		}
		if err != nil || p == "." {
			return nil
		}
		if skip(d.Name(), hidden) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name := strings.ToLower(d.Name())
		class := 0
		switch {
		case strings.HasPrefix(name, want):
		case strings.Contains(name, want):
			class = 1
		case lettersIn(strings.ToLower(p), want):
			class = 2
		default:
			return nil
		}
		found = append(found, match{rowAt(p, d), class})
		return nil
	})
	slices.SortFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(len(a.row.Path), len(b.row.Path)), cmp.Compare(a.row.Path, b.row.Path))
	})
	rows := make([]pathRow, len(found))
	for i, m := range found {
		rows[i] = m.row
	}
	return rows
}

func children(tree fs.FS, dir, prefix string, hidden bool) []pathRow {
	rows := []pathRow{}
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return rows
	}
	for _, d := range entries {
		if !skip(d.Name(), hidden) && strings.HasPrefix(strings.ToLower(d.Name()), prefix) {
			rows = append(rows, rowAt(path.Join(dir, d.Name()), d))
		}
	}
	slices.SortStableFunc(rows, func(a, b pathRow) int { return cmp.Compare(a.Kind, b.Kind) }) // dir before file
	return rows
}

func skip(name string, hidden bool) bool {
	return neverComplete[name] || strings.HasPrefix(name, ".") && !hidden
}

func rowAt(p string, d fs.DirEntry) pathRow {
	if d.IsDir() {
		return pathRow{Path: p + "/", Kind: "dir"}
	}
	row := pathRow{Path: p, Kind: "file"}
	if st, err := d.Info(); err == nil {
		size := st.Size()
		row.Size = &size
	}
	return row
}

// lettersIn reports whether the letters stand in s in their order.
func lettersIn(s, letters string) bool {
	for _, l := range letters {
		i := strings.IndexRune(s, l)
		if i < 0 {
			return false
		}
		s = s[i+len(string(l)):]
	}
	return true
}
