package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
)

// pullContext is where a pull request was prepared: what is opened must still be
// that.
type pullContext struct {
	WorkingDirectory string `json:"workingDirectory"`
	Repository       string `json:"repository"`
	Branch           string `json:"branchName"`
	Base             string `json:"baseBranchName"`
	Upstream         string `json:"upstreamBranchName,omitempty"`
}

// pullDetails is what an editor's form begins with.
type pullDetails struct {
	Title          string      `json:"title"`
	Description    string      `json:"description"`
	Branch         string      `json:"branchName"`
	Base           string      `json:"baseBranchName"`
	Repository     string      `json:"repository"`
	AutoMerge      bool        `json:"autoMergeAllowed"`
	MergeMethods   []string    `json:"mergeMethods"`
	AgentMerge     bool        `json:"agentMergeAvailable"`
	PullRequestFor pullContext `json:"context"`
}

// pullForm is what an editor's form said, in _meta of the operation.
type pullForm struct {
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	Draft        bool            `json:"draft"`
	AgentMerge   bool            `json:"agentMerge"`
	AutoMerge    string          `json:"autoMergeMethod"`
	ValidateOnly bool            `json:"validateOnly"`
	Expected     *pullContext    `json:"expectedContext"`
	AgentOptions json.RawMessage `json:"agentMergeOptions"`
}

// pull is a pull request that could be opened.
type pull struct {
	tree     *git.Tree
	status   *git.Status
	remote   string
	repo     forge.Repository
	subjects []string // of its commits; nil when they are not known
	fresh    bool     // its branch is yet to be made
	context  pullContext
}

// invoked is what an operation answers.
type invoked struct {
	Message  string    `json:"message,omitempty"`
	FollowUp *followUp `json:"followUp,omitempty"`
}

type followUp struct {
	Content struct {
		URI         string `json:"uri"`
		ContentType string `json:"contentType,omitempty"`
	} `json:"content"`
	External bool `json:"external,omitempty"`
}

// pullOf finds what a pull request of a session would be made of.
func (s *changesets) pullOf(ctx context.Context, at *scoped, sum *host.Summary, token string) (*pull, error) {
	tree, err := s.front.repos.git.Open(ctx, at.dir)
	if err != nil {
		return nil, err
	}
	p := &pull{tree: tree}
	if p.status, err = tree.Status(ctx, false); err != nil {
		return nil, err
	}
	remotes, err := tree.Remotes(ctx)
	if err != nil {
		return nil, err
	}
	remote, repo, ok := githubOf(remotes)
	if !ok {
		return nil, invalid("channel: the repository has no remote at %s", githubHost)
	}
	p.remote, p.repo = remote.Name, repo
	base, err := tree.DefaultBranch(ctx, remote.Name)
	if err == nil && base == "" && token != "" {
		base, err = s.front.forge.DefaultBranch(ctx, token, repo)
	}
	if err != nil {
		return nil, err
	}
	branch := p.status.Branch.Name
	switch {
	case base == "":
		return nil, invalid("channel: it is not known which branch of %s a pull request is for", repo)
	case p.status.Branch.Commit == "":
		return nil, git.ErrNoCommit
	case branch == "" || branch == base:
		branch, p.fresh = branchName(sum), true
	}
	p.context = pullContext{WorkingDirectory: fileURI(at.dir), Repository: repo.String(), Branch: branch, Base: base, Upstream: p.status.Branch.Upstream}
	p.subjects, err = tree.Subjects(ctx, remote.Name, base, maxSubjects)
	return p, err
}

// branchName is the name of a branch that a session's work goes to.
func branchName(sum *host.Summary) string {
	var b strings.Builder
	for _, c := range strings.ToLower(sum.Info.Title) {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	slug := strings.Trim(b.String(), "-")
	if slug == "" {
		slug = "session"
	}
	sid := sum.Info.ID.String()
	return branchPrefix + slug + "-" + sid[len(sid)-8:]
}

// body describes a pull request that nobody describes otherwise.
func (p *pull) body() string {
	var b strings.Builder
	for i := len(p.subjects) - 1; i >= 0; i-- {
		b.WriteString("- " + p.subjects[i] + "\n")
	}
	return b.String()
}

// still checks that what was prepared is what would be opened.
func (p *pull) still(expected *pullContext) error {
	if expected != nil && *expected != p.context {
		return invalid("_meta: the working tree is not as it was when the pull request was prepared")
	}
	return nil
}

// preparePull answers what the form of a pull request begins with.
func (c *conn) preparePull(ctx context.Context, at *scoped, sum *host.Summary, form *pullForm, token string) (invoked, error) {
	p, err := c.front.changesets.pullOf(ctx, at, sum, token)
	if err != nil {
		return invoked{}, err
	}
	if form != nil && form.ValidateOnly {
		return invoked{}, p.still(form.Expected)
	}
	w, err := c.wordsFor(ctx, at, sum, namedChange{tree: p.tree, status: p.status, pull: p})
	if err != nil && !errors.Is(err, errForced) { // else the form is left to the person
		return invoked{}, err
	}
	d := pullDetails{Title: w.title, Description: w.body, Branch: p.context.Branch, Base: p.context.Base, Repository: p.context.Repository,
		MergeMethods: []string{}, PullRequestFor: p.context}
	f := &followUp{}
	f.Content.URI, f.Content.ContentType = "data:application/json,"+percentEncode(string(encode(d))), "application/json"
	return invoked{Message: w.note, FollowUp: f}, nil
}

// percentEncode leaves only what means itself in every part of a URI.
func percentEncode(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// createPull commits what is uncommitted, pushes the branch and opens its pull
// request; one that is open already is the answer.
func (c *conn) createPull(ctx context.Context, at *scoped, sum *host.Summary, form *pullForm, token string) (invoked, error) {
	if form == nil {
		form = &pullForm{}
	}
	title, body := strings.TrimSpace(form.Title), form.Description
	switch {
	case form.AgentMerge || form.AutoMerge != "" || len(form.AgentOptions) > 0:
		return invoked{}, invalid("_meta: this host opens pull requests and merges none")
	case len(title) > forge.MaxTitle || len(body) > forge.MaxBody:
		return invoked{}, invalid("_meta: a title has at most %d bytes, a description %d", forge.MaxTitle, forge.MaxBody)
	}
	p, err := c.front.changesets.pullOf(ctx, at, sum, token)
	if err == nil {
		err = p.still(form.Expected)
	}
	if err == nil && token == "" {
		err = forge.ErrNoToken
	}
	if err != nil {
		return invoked{}, err
	}
	if p.fresh { // nothing is done here that the forge would not take
		if _, err := c.front.forge.DefaultBranch(ctx, token, p.repo); err != nil {
			return invoked{}, err
		}
	} else {
		there, err := c.front.forge.Newest(ctx, token, p.repo, p.context.Branch)
		if err != nil {
			return invoked{}, err
		}
		if there != nil && there.State == "open" {
			return opened("There is a pull request already", there), nil
		}
	}
	if len(p.status.Files) == 0 && p.subjects != nil && len(p.subjects) == 0 {
		return invoked{}, fmt.Errorf("%w: %s has all that is here", git.ErrNothing, p.context.Base)
	}
	note := ""
	if title == "" {
		w, err := c.wordsFor(ctx, at, sum, namedChange{tree: p.tree, status: p.status, pull: p})
		if err != nil {
			return invoked{}, err
		}
		title, note = w.title, w.note
		if body == "" {
			body = w.body
		}
	}
	if body == "" {
		body = p.body()
	}
	if p.fresh {
		if err := p.tree.Branch(ctx, p.context.Branch); err != nil {
			return invoked{}, err
		}
	}
	if len(p.status.Files) > 0 {
		if err := p.tree.Stage(ctx, p.tree.Prefix); err != nil {
			return invoked{}, err
		}
		if err := p.tree.Commit(ctx, p.tree.Prefix, title); err != nil {
			return invoked{}, err
		}
	}
	if err := p.tree.Push(ctx, p.remote, p.context.Branch); err != nil {
		return invoked{}, err
	}
	made, err := c.front.forge.Open(ctx, token, p.repo, forge.Proposal{Title: title, Body: body, Head: p.context.Branch, Base: p.context.Base, Draft: form.Draft})
	if err != nil {
		return invoked{}, err
	}
	c.log.Info("A pull request was opened", "session", at.session.String(), "url", made.URL)
	answer := opened("Opened a pull request", made)
	if note != "" {
		answer.Message += ". " + note
	}
	return answer, nil
}

func opened(what string, p *forge.PullRequest) invoked {
	f := &followUp{External: true}
	f.Content.URI = p.URL
	return invoked{Message: fmt.Sprintf("%s: #%d", what, p.Number), FollowUp: f}
}
