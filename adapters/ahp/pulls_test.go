package ahp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// fakeForge has one repository, org/r, on loopback.
type fakeForge struct {
	t *testing.T

	mu    sync.Mutex
	pulls []object
}

func (f *fakeForge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := any(object{"message": "Not Found"})
	status := http.StatusNotFound
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		status, answer = http.StatusUnauthorized, object{"message": "Bad credentials"}
	case r.Method == http.MethodGet && r.URL.Path == "/repos/org/r":
		status, answer = http.StatusOK, object{"default_branch": "main"}
	case r.Method == http.MethodGet && r.URL.Path == "/repos/org/r/pulls":
		_, branch, _ := strings.Cut(r.URL.Query().Get("head"), ":")
		found := []object{}
		for _, p := range f.pulls {
			if p["head"].(object)["ref"] == branch {
				found = []object{p}
			}
		}
		status, answer = http.StatusOK, found
	case r.Method == http.MethodPost && r.URL.Path == "/repos/org/r/pulls":
		var p object
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			f.t.Error(err)
		}
		made := object{"number": len(f.pulls) + 1, "html_url": "https://github.com/org/r/pull/1", "state": "open",
			"head": object{"ref": p["head"]}, "said": p}
		f.pulls = append(f.pulls, made)
		status, answer = http.StatusCreated, made
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakeForge) opened() []object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]object(nil), f.pulls...)
}

func (f *fakeForge) merge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls[0]["state"], f.pulls[0]["merged_at"] = "closed", "2026-01-01T00:00:00Z"
}

// forged is a repository whose origin is at GitHub by its name, and in a
// directory beside it in truth.
func forged(t *testing.T) (*gateway, *fakeForge, func(args ...string) string, func(name, text string)) {
	t.Helper()
	fake := &fakeForge{t: t}
	srv := httptest.NewServer(fake)
	t.Cleanup(srv.Close)
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New(), forge: forge.New(srv.URL, func() string { return "" })}
	g.start()
	git, write := g.repository("a", "1\n")
	bare := filepath.Join(t.TempDir(), "r.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", bare).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	git("config", "url."+bare+".insteadOf", "https://github.com/org/r.git")
	git("remote", "add", "origin", "https://github.com/org/r.git")
	git("push", "-q", "-u", "origin", "main")
	return g, fake, git, write
}

func operation(s object, id string) object {
	ops, _ := s["operations"].([]any)
	for _, o := range ops {
		if o.(object)["id"] == id {
			return o.(object)
		}
	}
	return nil
}

func TestAPullRequestIsPreparedAndOpened(t *testing.T) {
	t.Parallel()
	g, fake, git, write := forged(t)
	write("a", "2\n")
	write("new", "x\n")
	p := g.connect("c")
	p.session(g, "demo:/s")
	p.dispatch("demo:/s", object{"type": "session/titleChanged", "title": "Mend the Thing!"})
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.until(uri, "the operations", func(s object) bool {
		return operation(s, "create-pr") != nil && operation(s, "prepare-pull-request") != nil
	})

	// Preparing needs no token, opening does.
	res := p.call("invokeChangesetOperation", p.verb(uri, "prepare-pull-request", nil))
	content := res["followUp"].(object)["content"].(object)
	text, ok := strings.CutPrefix(content["uri"].(string), "data:application/json,")
	if !ok || content["contentType"] != "application/json" || res["followUp"].(object)["external"] != nil {
		t.Errorf("the follow-up: %v", res)
	}
	text, err := url.PathUnescape(text)
	var form object
	if err != nil || json.Unmarshal([]byte(text), &form) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	branch, _ := form["branchName"].(string)
	if form["title"] != "Mend the Thing!" || form["baseBranchName"] != "main" || form["repository"] != "org/r" || !strings.HasPrefix(branch, "agents/mend-the-thing-") {
		t.Errorf("the form: %v", form)
	}
	said := object{"title": "Mended", "description": "As asked.", "draft": true, "agentMerge": false, "expectedContext": form["context"]}
	create := object{"_meta": object{"vscode.pullRequest": said}}
	e := p.fails(codeAuthRequired, "invokeChangesetOperation", p.verb(uri, "create-pr", create))
	if list := e["data"].(object)["resources"].([]any); list[0].(object)["resource"] != "https://api.github.com/repos" {
		t.Errorf("what is missing: %v", e)
	}
	p.call("authenticate", object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": "wrong"})
	p.fails(codeAuthRequired, "invokeChangesetOperation", p.verb(uri, "create-pr", create))
	if git("status", "--porcelain") == "" || len(fake.opened()) != 0 {
		t.Error("something was done without a token")
	}
	p.call("authenticate", object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": "secret", "expiresIn": 3600})
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "create-pr", object{"_meta": object{"vscode.pullRequest": object{"title": "x", "expectedContext": object{"branchName": "other"}}}}))
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "create-pr", object{"_meta": object{"vscode.pullRequest": object{"title": "x", "agentMerge": true}}}))

	res = p.call("invokeChangesetOperation", p.verb(uri, "create-pr", create))
	if f := res["followUp"].(object); f["external"] != true || f["content"].(object)["uri"] != "https://github.com/org/r/pull/1" {
		t.Errorf("opened: %v", res)
	}
	made := fake.opened()
	if len(made) != 1 || show(made[0]["said"]) != show(object{"title": "Mended", "body": "As asked.", "draft": true, "head": branch, "base": "main"}) {
		t.Errorf("at the forge: %v", made)
	}
	if got := git("log", "-1", "--format=%s", "origin/"+branch, "--"); got != "Mended" || git("status", "--porcelain") != "" {
		t.Errorf("pushed: %q", got)
	}
	// It is shown with the session, its operations go, and a second one is the first.
	meta := p.until("demo:/s", "the pull request", func(s object) bool {
		gh, _ := s["_meta"].(object)["github"].(object)
		return gh["pullRequestState"] == "open"
	})["_meta"].(object)["github"].(object)
	if meta["pullRequestBranchName"] != branch || show(meta["pullRequestUrls"]) != `["https://github.com/org/r/pull/1"]` || meta["pullRequestStateUrl"] != "https://github.com/org/r/pull/1" {
		t.Errorf("_meta.github: %v", meta)
	}
	p.until(uri, "no such operations", func(s object) bool { return operation(s, "create-pr") == nil && operation(s, "commit") != nil })
	p.call("invokeChangesetOperation", p.verb(uri, "create-pr", nil))
	if n := len(fake.opened()); n != 1 {
		t.Errorf("%d pull requests", n)
	}
	fake.merge()
	p.call("authenticate", object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": "secret"})
	p.until("demo:/s", "that it is merged", func(s object) bool {
		gh, _ := s["_meta"].(object)["github"].(object)
		return gh["pullRequestState"] == "merged"
	})
	p.agree(g, "demo:/s", uri)

	// The token is taken back.
	p.call("authenticate", object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": ""})
	p.fails(codeAuthRequired, "invokeChangesetOperation", p.verb(uri, "create-pr", nil))
}

func TestALentTokenRunsOut(t *testing.T) {
	t.Parallel()
	g, _, _, write := forged(t)
	write("a", "2\n")
	p, q := g.connect("c"), g.connect("other")
	p.session(g, "demo:/s")
	resource := object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": "secret"}
	with := func(key string, v any) object {
		o := object{}
		for k, x := range resource {
			o[k] = x
		}
		o[key] = v
		return o
	}
	p.fails(-32602, "authenticate", with("expiresIn", 0))
	p.fails(-32602, "authenticate", with("token", "a b"))
	p.fails(-32602, "authenticate", with("token", strings.Repeat("x", maxToken+1)))
	p.fails(-32602, "authenticate", with("resource", "https://api.github.com"))
	from, other := p.mark(), q.mark()
	p.call("authenticate", with("expiresIn", 1))
	f, _ := p.wait(from, "the end of the token", func(f object) bool { return f["method"] == "auth/required" })
	if got := f["params"].(object); got["reason"] != "expired" || got["resource"].(object)["required"] != false {
		t.Errorf("%v", got)
	}
	p.fails(codeAuthRequired, "invokeChangesetOperation", p.verb("demo:/s/changeset/uncommitted", "create-pr", nil))
	q.call("ping", object{"channel": rootURI})
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.frames[other:] {
		if f["method"] == "auth/required" {
			t.Error("another connection was told")
		}
	}
}

func TestAnotherBranchIsCheckedOutBeforeAnybodySpoke(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n")
	git("branch", "topic")
	write("a", "2\n")
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.until(uri, "the operation", func(s object) bool { return operation(s, "checkout") != nil })
	if s := p.state(uri); operation(s, "create-pr") != nil {
		t.Error("a pull request without a forge")
	}
	to := func(what string, more ...string) object {
		meta := object{"treeish": what}
		if len(more) > 0 {
			meta["preCheckoutAction"] = more[0]
		}
		return p.verb(uri, "checkout", object{"_meta": meta})
	}
	e := p.fails(-32602, "invokeChangesetOperation", to("topic"))
	if show(e["data"]) != `{"reason":"dirtyWorkingTree"}` {
		t.Errorf("a dirty tree: %v", e)
	}
	marker := filepath.Join(t.TempDir(), "ran")
	for _, bad := range []string{"", "-f", "--orphan=x", "a..b", "HEAD@{1}", "@", "a b", ":/x", "x~1", "x^", "refs/../x", "line\nbreak", "--upload-pack=touch " + marker, strings.Repeat("x", 500)} {
		p.fails(-32602, "invokeChangesetOperation", to(bad, "stash"))
	}
	p.fails(-32602, "invokeChangesetOperation", to("topic", "reset"))
	p.fails(codeConflict, "invokeChangesetOperation", to("none", "stash"))
	if git("diff", "--stat") == "" || git("branch", "--show-current") != "main" {
		t.Error("a refused checkout left something else behind")
	}
	p.call("invokeChangesetOperation", to("topic", "stash"))
	if git("branch", "--show-current") != "topic" || git("status", "--porcelain") != "" || git("stash", "list") == "" {
		t.Error("it was not stashed and checked out")
	}
	p.changed(g, uri, only())
	p.until("demo:/s", "the branch", func(s object) bool { return gitOf(s)["branchName"] == "topic" })
	write("a", "3\n")
	p.call("invokeChangesetOperation", to("main", "commit"))
	if git("log", "-1", "--format=%s", "topic", "--") != "Changes of a session" || git("branch", "--show-current") != "main" {
		t.Error("it was not committed and checked out")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program ran")
	}
	p.dispatch(chat, started("t1", "hello"))
	p.idle(chat, "t1")
	p.until(uri, "no such operation", func(s object) bool { return operation(s, "checkout") == nil && operation(s, "commit") != nil })
	p.fails(-32602, "invokeChangesetOperation", to("topic"))
	for _, verb := range []string{"prepare-pull-request", "create-pr"} {
		p.call("authenticate", object{"channel": rootURI, "resource": "https://api.github.com/repos", "token": "secret"})
		p.fails(-32602, "invokeChangesetOperation", p.verb(uri, verb, nil)) // no remote
	}
}
