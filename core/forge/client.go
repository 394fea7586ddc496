// Package forge is what a host does at the place where repositories are shared:
// it finds and opens pull requests. It knows no protocol, no session and no git
// program.
//
// A token goes to the forge's own address and nowhere else: redirects are not
// followed. Answers are hostile: bounded, and only what is of the right form is
// taken from them.
package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// GitHub is the address of the REST API of github.com.
const GitHub = "https://api.github.com"

// Errors. Their texts are fit for clients.
var (
	// ErrNoToken: nobody gave a token, or the forge does not take it.
	ErrNoToken = errors.New("a token for the forge is needed")
	// ErrNotFound: no such repository, or none that the token may see.
	ErrNotFound = errors.New("not found at the forge")
	// ErrRefused: the forge would not do it, in its words.
	ErrRefused = errors.New("the forge refused")
	// ErrUnreachable: no answer, or one that makes no sense.
	ErrUnreachable = errors.New("the forge cannot be reached")
)

// Client speaks to a forge with the REST API of GitHub.
type Client struct {
	base  string
	own   func() string
	plain *http.Client
}

// New makes a client of the forge at an address. own gives the gateway's own
// token, "" for none.
func New(base string, own func() string) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), own: own, plain: &http.Client{Timeout: askWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// FromEnvironment is a token as GitHub's own program takes it: GH_TOKEN or
// GITHUB_TOKEN.
func FromEnvironment() string {
	if t := os.Getenv("GH_TOKEN"); t != "" {
		return t
	}
	return os.Getenv("GITHUB_TOKEN")
}

// Token picks the token to ask with: one that was lent, or the gateway's own.
func (c *Client) Token(lent string) string {
	if lent != "" {
		return lent
	}
	return c.own()
}

// Close lets go of connections that wait to be used again.
func (c *Client) Close() { c.plain.CloseIdleConnections() }

// PullRequest is one at the forge.
type PullRequest struct {
	Number int
	// URL is its page.
	URL string
	// State is open, closed or merged.
	State string
	// Branch is the one that it wants to bring in.
	Branch string
}

// Proposal is a pull request to be opened.
type Proposal struct {
	Title, Body string
	// Head is the branch with the changes, Base the one they are for.
	Head, Base string
	Draft      bool
}

// wire is a pull request as the forge says it.
type wire struct {
	Number   int    `json:"number"`
	HTMLURL  string `json:"html_url"`
	State    string `json:"state"`
	MergedAt string `json:"merged_at"`
	Head     struct {
		Ref string `json:"ref"`
	} `json:"head"`
}

func (w *wire) pull() (*PullRequest, error) {
	u, err := url.Parse(w.HTMLURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || w.Number < 1 || w.State != "open" && w.State != "closed" {
		return nil, fmt.Errorf("%w: what it said of a pull request makes no sense", ErrUnreachable)
	}
	p := &PullRequest{Number: w.Number, URL: u.String(), State: w.State, Branch: w.Head.Ref}
	if w.MergedAt != "" {
		p.State = "merged"
	}
	return p, nil
}

// Newest finds the pull request of a branch that was opened last; nil when there
// is none.
func (c *Client) Newest(ctx context.Context, token string, r Repository, branch string) (*PullRequest, error) {
	q := url.Values{"head": {r.Owner + ":" + branch}, "state": {"all"}, "sort": {"created"}, "direction": {"desc"}, "per_page": {"1"}}
	var list []wire
	if err := c.ask(ctx, token, http.MethodGet, c.at(r, "pulls")+"?"+q.Encode(), nil, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].Head.Ref != branch {
		return nil, nil
	}
	return list[0].pull()
}

// DefaultBranch is the branch that a repository shows.
func (c *Client) DefaultBranch(ctx context.Context, token string, r Repository) (string, error) {
	var said struct {
		DefaultBranch string `json:"default_branch"`
	}
	err := c.ask(ctx, token, http.MethodGet, c.at(r, ""), nil, &said)
	return said.DefaultBranch, err
}

// Open opens a pull request.
func (c *Client) Open(ctx context.Context, token string, r Repository, p Proposal) (*PullRequest, error) {
	var made wire
	err := c.ask(ctx, token, http.MethodPost, c.at(r, "pulls"),
		map[string]any{"title": p.Title, "body": p.Body, "head": p.Head, "base": p.Base, "draft": p.Draft}, &made)
	if err != nil {
		return nil, err
	}
	return made.pull()
}

func (c *Client) at(r Repository, what string) string {
	return strings.TrimSuffix(c.base+"/repos/"+url.PathEscape(r.Owner)+"/"+url.PathEscape(r.Name)+"/"+what, "/")
}

func (c *Client) ask(ctx context.Context, token, method, at string, body, answer any) error {
	if token == "" {
		return ErrNoToken
	}
	var send io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, send)
	if err != nil {
		return fmt.Errorf("%w: its address makes no sense", ErrUnreachable)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "polyhost")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.plain.Do(req)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // its text has the address, and may have more
		return ErrUnreachable
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(said) > maxAnswer {
		return fmt.Errorf("%w: its answer broke off", ErrUnreachable)
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp.StatusCode, said)
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("%w: its answer makes no sense", ErrUnreachable)
	}
	return nil
}

// refused words an answer that is a refusal.
func refused(status int, said []byte) error {
	var why struct {
		Message string `json:"message"`
		Errors  []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(said, &why) // it may say nothing
	words := []string{why.Message}
	for _, e := range why.Errors {
		words = append(words, e.Message)
	}
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	text = strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
	switch {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not take this one", ErrNoToken)
	case status == http.StatusNotFound:
		return ErrNotFound
	case status >= 500 || status/100 == 3:
		return fmt.Errorf("%w: it answered %d", ErrUnreachable, status)
	case text == "":
		return fmt.Errorf("%w: it answered %d", ErrRefused, status)
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}
