package git

import (
	"context"
	"fmt"
)

// Diff is the text of what differs at or below a path, cut after most bytes: of the
// working tree, or of the index, from the last commit or, with a branch of a remote,
// from where HEAD left that. Untracked files are not in it.
func (t *Tree) Diff(ctx context.Context, path string, index bool, remote, branch string, most int) (string, error) {
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"}
	if index {
		args = append(args, "--cached")
	}
	from := "HEAD"
	if branch != "" {
		if err := checkName(remote); err != nil {
			return "", err
		}
		if err := checkName(branch); err != nil {
			return "", err
		}
		args, from = append(args, "--merge-base"), fmt.Sprintf("refs/remotes/%s/%s", remote, branch)
	}
	args = append(args, from, "--")
	if path != "" {
		args = append(args, path)
	}
	out, err := t.git.run(ctx, command{dir: t.Top, most: most, cut: true, args: args})
	return string(out), t.refused(err)
}
