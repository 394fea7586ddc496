package zidane

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/host"
)

// roots are the workspace roots: the server's own directory first, then those
// that existing sessions work in.
func (f *Front) roots() []string {
	out := []string{f.host.DefaultDir()}
	for _, sum := range f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
		for _, d := range sum.Info.Dirs {
			if !slices.ContainsFunc(out, func(root string) bool { return within(root, d) }) {
				out = append(out, d)
			}
		}
	}
	return out
}

// within reports whether path is dir or lies below it. Both are clean.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolve gives the real path of what lies in the workspace roots, links
// followed. "" is the first root.
func (f *Front) resolve(named string) (string, error) {
	roots, path := f.roots(), named
	if path == "" {
		path = roots[0]
	}
	if len(path) > maxText || strings.ContainsRune(path, 0) || !filepath.IsAbs(path) {
		return "", failed("\"%s\" is not an absolute path.", shown(named))
	}
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	for _, root := range roots {
		realRoot, rootErr := filepath.EvalSymlinks(root)
		switch {
		case rootErr != nil:
		case err == nil && within(realRoot, real):
			return real, nil
		case err != nil && (within(root, path) || within(realRoot, path)):
			return "", failed("\"%s\" does not exist.", shown(named))
		}
	}
	return "", failed("\"%s\" is outside the workspace roots.", shown(named))
}

// workDir is resolve for folders.
func (f *Front) workDir(path string) (string, error) {
	real, err := f.resolve(path)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", failed("\"%s\" is not a folder.", shown(path))
	}
	return real, nil
}

// fileIn is resolve for regular files; relative paths begin in the first of
// dirs.
func (f *Front) fileIn(dirs []string, path string) (string, error) {
	if !filepath.IsAbs(path) && len(dirs) > 0 {
		path = filepath.Join(dirs[0], path)
	}
	real, err := f.resolve(path)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(real); err != nil || !st.Mode().IsRegular() {
		return "", failed("\"%s\" is not a file.", shown(path))
	}
	return real, nil
}

// sameDir compares a session's folder with one that a client names.
func sameDir(dir, named string) bool {
	named = filepath.Clean(named)
	if dir == named {
		return true
	}
	a, errA := filepath.EvalSymlinks(dir)
	b, errB := filepath.EvalSymlinks(named)
	return errA == nil && errB == nil && a == b
}

func fsRoots(_ context.Context, c *call, _ struct{}) (any, error) {
	return struct {
		Roots []string `json:"roots"`
	}{c.roots()}, nil
}

type folderObject struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Git  bool   `json:"git"`
}

func folderOf(path string) folderObject {
	_, err := os.Lstat(filepath.Join(path, ".git"))
	return folderObject{filepath.Base(path), path, err == nil}
}

// subfolders are the folders in a folder, by name, without links and hidden
// ones.
func subfolders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

func fsList(_ context.Context, c *call, p struct {
	Path *string `json:"path" jsonx:"required"`
}) (any, error) {
	dir, err := c.workDir(*p.Path)
	if err != nil {
		return nil, err
	}
	out := struct {
		Path      string         `json:"path"`
		Folders   []folderObject `json:"folders"`
		Truncated bool           `json:"truncated,omitempty"`
	}{Path: dir, Folders: []folderObject{}}
	for _, sub := range subfolders(dir) {
		if len(out.Folders) == listedFolders {
			out.Truncated = true
			break
		}
		out.Folders = append(out.Folders, folderOf(sub))
	}
	return out, nil
}

// fsSearch finds folders by a part of their name, those nearest to a root
// first.
func fsSearch(ctx context.Context, c *call, p struct {
	Query string `json:"query" jsonx:"required"`
	Limit *int   `json:"limit"`
}) (any, error) {
	limit, err := hitLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.Query == "" || len(p.Query) > maxText {
		return nil, badField("query", "want 1 to %d bytes", maxText)
	}
	out := struct {
		Folders   []folderObject `json:"folders"`
		Truncated bool           `json:"truncated"`
	}{Folders: []folderObject{}}
	query, seen := strings.ToLower(p.Query), 0
	level := c.roots()
	for depth := 0; len(level) > 0 && depth < searchDepth; depth++ {
		var next []string
		for _, dir := range level {
			for _, sub := range subfolders(dir) {
				if seen++; seen > searchedFolders || ctx.Err() != nil {
					out.Truncated = true
					return out, ctx.Err()
				}
				name := filepath.Base(sub)
				if strings.Contains(strings.ToLower(name), query) {
					if len(out.Folders) == limit {
						out.Truncated = true
						return out, nil
					}
					out.Folders = append(out.Folders, folderOf(sub))
				}
				if name != "node_modules" {
					next = append(next, sub)
				}
			}
		}
		level = next
	}
	return out, nil
}

// hitLimit checks how many rows a client wants.
func hitLimit(limit *int) (int, error) {
	if limit == nil {
		return hitsByDefault, nil
	}
	if *limit < 1 {
		return 0, badField("limit", "want 1 or more")
	}
	return min(*limit, maxHits), nil
}

// fsCreateFolder makes one folder in a folder of the roots.
func fsCreateFolder(_ context.Context, c *call, p struct {
	Path string `json:"path" jsonx:"required"`
}) (any, error) {
	if !c.settingOn("allowCreateFolders") {
		return nil, failed("This server does not let clients create folders.")
	}
	path := filepath.Clean(p.Path)
	name := filepath.Base(path)
	if !filepath.IsAbs(path) || name == string(filepath.Separator) {
		return nil, failed("\"%s\" is not an absolute path.", shown(p.Path))
	}
	parent, err := c.workDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, failed("\"%s\" cannot be opened.", shown(parent))
	}
	defer root.Close()
	switch err := root.Mkdir(name, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil, failed("\"%s\" exists already.", shown(path))
	case err != nil:
		return nil, failed("\"%s\" cannot be created.", shown(path))
	}
	return struct {
		Path string `json:"path"`
	}{filepath.Join(parent, name)}, nil
}

// newestFirst lists all sessions, the last changed first.
func (f *Front) newestFirst(cwd string) []host.Summary {
	list := f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true})
	if cwd != "" {
		list = slices.DeleteFunc(list, func(s host.Summary) bool { return len(s.Info.Dirs) == 0 || !sameDir(s.Info.Dirs[0], cwd) })
	}
	slices.SortStableFunc(list, func(a, b host.Summary) int { return cmp.Compare(b.ModifiedAt.UnixNano(), a.ModifiedAt.UnixNano()) })
	return list
}
