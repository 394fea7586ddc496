package ahp

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/id"
)

// gitPrefix begins the names of files as they were in a commit:
// <scheme>://<commit>/<session>/<path in the repository>. The session says
// which repository: the one that its directory is in.
const gitPrefix = "ahp-git://"

type gitRef struct {
	session id.ID
	commit  string
	path    string
}

func (g *gitRef) uri() string {
	return (&url.URL{Scheme: "ahp-git", Host: g.commit, Path: "/" + g.session.String() + "/" + g.path}).String()
}

// parseGit reads such a name; nil for any other.
func parseGit(uri string) *gitRef {
	rest, ok := strings.CutPrefix(uri, gitPrefix)
	p := strings.SplitN(rest, "/", 3)
	if !ok || len(p) < 3 || !git.IsCommit(p[0]) || strings.ContainsAny(p[2], "?#") {
		return nil
	}
	session, err := id.Parse(p[1])
	path, err2 := url.PathUnescape(p[2])
	if err != nil || err2 != nil || path == "" || strings.ContainsRune(path, 0) {
		return nil
	}
	return &gitRef{session, p[0], path}
}

// fileOf gives a file as it was in a commit.
func (s *changesets) fileOf(ctx context.Context, uri string, ref *gitRef) (name, text string, err error) {
	sum, ok := s.front.host.Summary(ref.session)
	if !ok || len(sum.Info.Dirs) == 0 {
		return "", "", nothingAt(uri)
	}
	tree, err := s.front.repos.git.Open(ctx, sum.Info.Dirs[0])
	if err != nil {
		return "", "", err
	}
	if full := filepath.Join(tree.Top, ref.path); s.front.files.Fenced(full) {
		return "", "", denied("%.200s is closed to clients", uri)
	}
	content, err := tree.Show(ctx, ref.commit, ref.path)
	return filepath.Base(ref.path), string(content), err
}
