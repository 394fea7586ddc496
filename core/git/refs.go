package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Remote is another repository that this one knows by a name.
type Remote struct {
	Name string
	// URL is what the configuration says, before it is rewritten for fetching.
	URL string
}

// Remotes lists the remotes in the order of the configuration, at most
// maxRemotes. What git may ask of their URLs is its own business: they are
// hostile text.
func (t *Tree) Remotes(ctx context.Context) ([]Remote, error) {
	out, err := t.look(ctx, maxAnswer, "config", "-z", "--get-regexp", `^remote\..*\.url$`)
	var f *failure
	if errors.As(err, &f) && f.code == 1 { // there are none
		return nil, nil
	} else if err != nil {
		return nil, t.refused(err)
	}
	var list []Remote
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, url, _ := strings.Cut(entry, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".url")
		seen := len(list) > 0 && list[len(list)-1].Name == name // a remote may have several
		if len(list) < maxRemotes && !seen && name != "" && url != "" {
			list = append(list, Remote{name, url})
		}
	}
	return list, nil
}

// Branches lists the local branches whose names contain a word, whatever its
// case, the one that was committed to last first; at most limit.
func (t *Tree) Branches(ctx context.Context, word string, limit int) ([]string, error) {
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true,
		args: []string{"for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads/"}})
	if err != nil {
		return nil, t.refused(err)
	}
	var list []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		if len(list) < limit && name != "" && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
			list = append(list, name)
		}
	}
	return list, nil
}

// DefaultBranch is the branch that work is to end up in, as far as the
// repository knows: what the remote says, or the usual names. "" is none.
func (t *Tree) DefaultBranch(ctx context.Context, remote string) (string, error) {
	if checkName(remote) == nil {
		out, err := t.look(ctx, maxAnswer, "symbolic-ref", "--quiet", "--short", "refs/remotes/"+remote+"/HEAD")
		if err == nil {
			return strings.TrimPrefix(strings.TrimSpace(string(out)), remote+"/"), nil
		}
		var f *failure
		if !errors.As(err, &f) {
			return "", err
		}
	}
	for _, usual := range []string{"main", "master"} {
		for _, ref := range []string{"refs/heads/" + usual, "refs/remotes/" + remote + "/" + usual} {
			if there, err := t.hasRef(ctx, ref); err != nil || there {
				return usual, err
			}
		}
	}
	return "", nil
}

func (t *Tree) hasRef(ctx context.Context, ref string) (bool, error) {
	_, err := t.look(ctx, maxAnswer, "show-ref", "--verify", "--quiet", "--", ref)
	var f *failure
	if errors.As(err, &f) {
		return false, nil
	}
	return err == nil, err
}

// HasBranch reports whether there is a local branch of that name.
func (t *Tree) HasBranch(ctx context.Context, name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	return t.hasRef(ctx, "refs/heads/"+name)
}

// checkName refuses what cannot be the name of a branch or a remote, before git
// sees it: an option, an expression, a path.
func checkName(name string) error {
	bad := name == "" || len(name) > MaxRef || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") ||
		strings.HasSuffix(name, ".") || name == "@" || name == "HEAD" || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//")
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	for _, c := range name {
		bad = bad || c <= ' ' || c == 0x7f || c == 0xfffd || strings.ContainsRune("~^:?*[\\", c)
	}
	if bad {
		return fmt.Errorf("%w: %.80q cannot be the name of a branch", ErrInvalid, name)
	}
	return nil
}

// Head is the branch that is checked out; "" is none.
func (t *Tree) Head(ctx context.Context) (string, error) {
	out, err := t.look(ctx, maxAnswer, "symbolic-ref", "--quiet", "--short", "HEAD")
	var f *failure
	if errors.As(err, &f) {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}
