package forge

import (
	"net/url"
	"regexp"
	"strings"
)

// Repository is one of a forge.
type Repository struct{ Owner, Name string }

func (r Repository) String() string { return r.Owner + "/" + r.Name }

var (
	ownerName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$`)
	repoName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
)

// Parse reads the repository out of the URL of a git remote; false for one that
// is not on the host, which is a name without a port as github.com.
func Parse(remote, host string) (Repository, bool) {
	path := ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		switch u.Scheme {
		case "https", "http", "ssh", "git":
		default:
			return Repository{}, false
		}
		if !strings.EqualFold(u.Hostname(), host) {
			return Repository{}, false
		}
		path = u.Path
	} else if at, rest, ok := strings.Cut(remote, ":"); ok { // user@host:path
		if i := strings.LastIndexByte(at, '@'); i >= 0 {
			at = at[i+1:]
		}
		if !strings.EqualFold(at, host) {
			return Repository{}, false
		}
		path = rest
	}
	owner, name, ok := strings.Cut(strings.Trim(path, "/"), "/")
	name = strings.TrimSuffix(name, ".git")
	if !ok || !ownerName.MatchString(owner) || !repoName.MatchString(name) || name == "." || name == ".." {
		return Repository{}, false
	}
	return Repository{owner, name}, true
}
