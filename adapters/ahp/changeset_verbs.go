package ahp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// The verbs of changesets.
const (
	verbCommit  = "commit"
	verbStage   = "stage"
	verbUnstage = "unstage"
	verbDiscard = "discard"
	verbRevert  = "revert"

	verbCheckout = "checkout"
	verbPrepare  = "prepare-pull-request"
	verbCreate   = "create-pr"
)

const (
	targetAll      = "changeset"
	targetResource = "resource"
)

func busy(sum *host.Summary) bool {
	return sum.Status == host.Running || sum.Status == host.AwaitingApproval || sum.Status == host.AwaitingQuestion
}

// allowed is the status of verbs: there must be something to do them to, and
// no turn that works on the same files.
func allowed(sum *host.Summary, changes int) string {
	if busy(sum) || changes == 0 {
		return stateDisabled
	}
	return stateIdle
}

// subject is the message of a commit when nobody gives one.
func subject(sum *host.Summary) string {
	line, _, _ := strings.Cut(strings.TrimSpace(sum.Info.Title), "\n")
	if line == "" {
		return "Changes of a session"
	}
	return clip(line)
}

// gitVerbs are the operations of what is uncommitted.
func (s *changesets) gitVerbs(sum *host.Summary, st *git.Status) []changesetOperation {
	staged, untracked := 0, 0
	for _, f := range st.Files {
		if f.Staged {
			staged++
		}
		if !f.Tracked {
			untracked++
		}
	}
	takes := count(staged, "staged file")
	if staged == 0 {
		takes = count(len(st.Files), "file")
		if untracked > 0 {
			takes += fmt.Sprintf(", %d of them untracked", untracked)
		}
	}
	status, both := allowed(sum, len(st.Files)), []string{targetAll, targetResource}
	return []changesetOperation{
		{ID: verbCommit, Label: "Commit", Scopes: both, Icon: "git-commit", Status: status,
			Confirmation: fmt.Sprintf("%s The whole changeset takes %s.", s.front.asWhom(sum), takes)},
		{ID: verbStage, Label: "Stage", Scopes: both, Icon: "add", Group: "index", Status: status},
		{ID: verbUnstage, Label: "Unstage", Scopes: both, Icon: "remove", Group: "index", Status: status},
		{ID: verbDiscard, Label: "Discard", Scopes: both, Icon: "discard", Status: status,
			Confirmation: "Put it back to the last commit? New files are deleted. This cannot be undone."},
	}
}

// branchVerbs are the operations of the branch that is checked out. Another one
// can be checked out before anybody spoke, and a pull request opened where there
// is none. Nothing runs yet that they would disturb, or they are disabled.
func (s *changesets) branchVerbs(sum *host.Summary, known *fact, all bool) []changesetOperation {
	whole, status := []string{targetAll}, stateIdle
	if busy(sum) {
		status = stateDisabled
	}
	var ops []changesetOperation
	if all || sum.Info.Provisional {
		ops = append(ops, changesetOperation{ID: verbCheckout, Label: "Check out", Scopes: whole, Icon: "git-branch", Group: "branch", Status: status})
	}
	if all || known != nil && known.github != nil && known.github.State != "open" {
		ops = append(ops, changesetOperation{ID: verbPrepare, Label: "Prepare pull request", Scopes: whole, Icon: "git-pull-request", Group: "branch", Status: status},
			changesetOperation{ID: verbCreate, Label: "Create pull request", Scopes: whole, Icon: "git-pull-request-create", Group: "branch", Status: status})
	}
	return ops
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sessionVerbs are the operations of what a session edited.
func (s *changesets) sessionVerbs(sum *host.Summary, changes int) []changesetOperation {
	return []changesetOperation{{ID: verbRevert, Label: "Revert", Scopes: []string{targetResource}, Icon: "discard", Status: allowed(sum, changes),
		Confirmation: "Put the file back to what the agent found? What was changed since is lost."}}
}

// invoke runs an operation of a changeset.
func (c *conn) invoke(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel     string           `json:"channel" jsonx:"required"`
		OperationID string           `json:"operationId" jsonx:"required"`
		Target      *operationTarget `json:"target"`
		Meta        struct {
			Commit struct {
				Message string `json:"message"`
			} `json:"ahpd.commit"`
			Treeish     string    `json:"treeish"`
			First       string    `json:"preCheckoutAction"`
			PullRequest *pullForm `json:"vscode.pullRequest"`
		} `json:"_meta"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	s := c.front.changesets
	at, err := s.find(ctx, p.Channel)
	if err != nil {
		return nil, err
	}
	sum, ok := c.front.host.Summary(at.session)
	if !ok {
		return nil, sessionNotFound(at.sessionURI)
	}
	var verb *changesetOperation
	var ops []changesetOperation
	switch at.scope {
	case scopeSession:
		ops = s.sessionVerbs(&sum, 1)
	case scopeUncommitted:
		ops = append(s.gitVerbs(&sum, &git.Status{}), s.branchVerbs(&sum, nil, true)...)
	}
	if i := slices.IndexFunc(ops, func(o changesetOperation) bool { return o.ID == p.OperationID }); i >= 0 {
		verb = &ops[i]
	}
	kind, path := targetAll, ""
	if p.Target != nil {
		kind = p.Target.Kind
		if path, err = filePath(p.Target.Resource); err != nil {
			return nil, invalid("target.resource: %s", errorText(err))
		}
	}
	switch {
	case verb == nil:
		return nil, invalid("operationId: this changeset has no operation %.100q", p.OperationID)
	case !slices.Contains(verb.Scopes, kind):
		return nil, invalid("target: %s is not for a target of the kind %.50q", verb.ID, kind)
	case busy(&sum):
		return nil, jsonrpc.Errorf(codeTurnInProgress, "a turn is running")
	case path != "" && c.front.files.Fenced(path):
		return nil, denied("%.200s is closed to clients", path)
	}
	s.running(at.uri, verb.ID, stateRunning, nil)
	c.log.Info("A client runs an operation of a changeset", "session", at.session.String(), "client", c.who().id, "operation", verb.ID, "path", clip(path))
	var answer invoked
	token := c.front.forge.Token(c.token())
	switch verb.ID {
	case verbRevert:
		err = s.revert(ctx, &at, path)
	case verbCheckout:
		err = s.checkout(ctx, &at, &sum, p.Meta.Treeish, p.Meta.First)
	case verbPrepare:
		answer, err = c.preparePull(ctx, &at, &sum, p.Meta.PullRequest, token)
	case verbCreate:
		answer, err = c.createPull(ctx, &at, &sum, p.Meta.PullRequest, token)
	default:
		answer.Message, err = c.doGit(ctx, &at, &sum, verb.ID, path, p.Meta.Commit.Message)
	}
	s.running(at.uri, verb.ID, stateIdle, err)
	s.wrote("")
	if verb.ID == verbCreate {
		c.front.facts.want(at.dir, true)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// checkout checks something else out for a session that nobody has spoken in.
func (s *changesets) checkout(ctx context.Context, at *scoped, sum *host.Summary, what, first string) error {
	switch {
	case what == "":
		return invalid("_meta.treeish: what is to be checked out")
	case !sum.Info.Provisional:
		return invalid("operationId: a session that was spoken in stays on its branch")
	}
	tree, err := s.front.repos.git.Open(ctx, at.dir)
	if err != nil {
		return err
	}
	return tree.Checkout(ctx, what, first, subject(sum))
}

// running tells those who watch how an operation goes.
func (s *changesets) running(uri, verb, status string, err error) {
	var info *errorInfo
	if err != nil {
		status, info = stateError, &errorInfo{ErrorType: "failed", Message: refusalText(err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[uri]
	if c == nil {
		return
	}
	ops := slices.Clone(c.state.Operations)
	for i := range ops {
		if ops[i].ID == verb {
			ops[i].Status, ops[i].Error = status, info
			c.state.Operations = ops
			s.say(c, changesetAction{Type: "changeset/operationStatusChanged", OperationID: verb, Status: status, Error: info})
		}
	}
}

// doGit does a verb of git to a path, or to the whole directory for "". A commit
// has the message, or else the words that are found for it, of which the note tells.
func (c *conn) doGit(ctx context.Context, at *scoped, sum *host.Summary, verb, path, message string) (note string, err error) {
	tree, err := c.front.repos.git.Open(ctx, at.dir)
	if err != nil {
		return "", err
	}
	rel := tree.Prefix
	if path != "" {
		if rel, err = tree.Relative(path); err != nil {
			return "", err
		}
	}
	switch verb {
	case verbCommit:
		if message == "" {
			what := namedChange{tree: tree}
			if path != "" {
				what.path = rel
			}
			if what.status, err = tree.Status(ctx, false); err != nil {
				return "", err
			}
			w, err := c.wordsFor(ctx, at, sum, what)
			if err != nil {
				return "", err
			}
			message, note = w.message(), w.note
		}
		return note, tree.Commit(ctx, rel, message)
	case verbStage:
		return "", tree.Stage(ctx, rel)
	case verbUnstage:
		return "", tree.Unstage(ctx, rel)
	default:
		return "", tree.Discard(ctx, rel)
	}
}

// revert puts a file back to what the agents of a session found.
func (s *changesets) revert(ctx context.Context, at *scoped, path string) error {
	turns, err := s.stretch(ctx, at)
	if err != nil {
		return err
	}
	x := spans(at.session, turns)[path]
	switch {
	case x == nil:
		return invalid("target.resource: this session did not edit %.200s", path)
	case x.first.Kind == "create":
		err = s.front.files.Delete(path, false)
		if errors.Is(err, files.ErrNotFound) {
			return nil
		}
		return err
	case x.first.Before == nil:
		return invalid("target.resource: what %.200s was is not kept: it was too large", path)
	}
	return s.front.files.Write(path, files.Write{Data: []byte(*x.first.Before), Mode: files.Truncate})
}
