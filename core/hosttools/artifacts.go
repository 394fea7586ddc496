package hosttools

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// artifactsKey is the fact of a session that has its artifacts.
const artifactsKey = "agent.artifacts"

// Artifact is something that an agent recorded for people to come back to: what
// its session made, or what it refers to.
type Artifact struct {
	ID         string `json:"id"`
	Type       string `json:"type"` // one of artifactTypes
	Label      string `json:"label"`
	IsArtifact bool   `json:"isArtifact"` // or else a reference
	Link       string `json:"link,omitempty"`
	URI        string `json:"uri,omitempty"`
	CommitHash string `json:"commitHash,omitempty"`
	// IsGitHub is there for pull requests and issues.
	IsGitHub *bool `json:"isGitHub,omitempty"`
}

// artifactTypes are what there is to record. The first four have a link, the
// others a URI.
var artifactTypes = []string{"pullRequest", "issue", "commit", "website", "file", "resource"}

// runs are the schemes of URIs that do something in a client that opens them.
var runs = map[string]bool{"javascript": true, "vbscript": true, "data": true, "command": true}

// Artifacts are those of a session, the oldest first.
func Artifacts(info *event.SessionInfo) []Artifact {
	var out []Artifact
	if raw := info.Meta[artifactsKey]; raw != nil && json.Unmarshal(raw, &out) != nil {
		return nil // of another version
	}
	return out
}

// RemoveArtifact takes one off a session; nil if it has none of that id.
func (s *Set) RemoveArtifact(ctx context.Context, session *host.Session, name string, by event.Actor) (*Artifact, error) {
	var gone *Artifact
	err := s.changeArtifacts(ctx, session, by, func(all []Artifact) []Artifact {
		i := slices.IndexFunc(all, func(a Artifact) bool { return a.ID == name })
		if i < 0 {
			return all
		}
		gone = &all[i]
		return slices.Concat(all[:i], all[i+1:])
	})
	return gone, err
}

// changeArtifacts replaces the artifacts of a session by what change makes of
// them, unless it leaves them as they are. Nobody else changes them meanwhile.
func (s *Set) changeArtifacts(ctx context.Context, session *host.Session, by event.Actor, change func([]Artifact) []Artifact) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	info := session.State().Info
	before := Artifacts(&info)
	after := change(slices.Clone(before))
	if slices.EqualFunc(before, after, func(a, b Artifact) bool { return a.ID == b.ID && a.IsArtifact == b.IsArtifact }) {
		return nil
	}
	raw := json.RawMessage("null") // takes the fact away
	if len(after) > 0 {
		var err error
		if raw, err = json.Marshal(after); err != nil {
			return err
		}
	}
	return session.Update(ctx, &event.SessionUpdated{By: by, Meta: map[string]json.RawMessage{artifactsKey: raw}})
}

// value is what makes two artifacts the same.
func (a *Artifact) value() string {
	return strings.ToLower(a.Link + a.URI + "\x00" + a.CommitHash)
}

type artifactInput struct {
	Type       string `json:"type" need:"yes"`
	Label      string `json:"label" need:"yes"`
	IsArtifact bool   `json:"isArtifact" need:"yes"`
	Link       string `json:"link"`
	URI        string `json:"uri"`
	CommitHash string `json:"commitHash"`
}

// artifact checks what is to be recorded.
func (in *artifactInput) artifact() (Artifact, error) {
	a := Artifact{ID: id.New().String(), Type: in.Type, Label: strings.TrimSpace(in.Label), IsArtifact: in.IsArtifact}
	if err := one("type", in.Type, artifactTypes...); err != nil {
		return a, err
	}
	switch {
	case a.Label == "":
		return a, sayf("label is empty")
	case utf8.RuneCountInString(a.Label) > maxLabel:
		return a, sayf("label has more than %d characters", maxLabel)
	case len(in.Link) > maxAddress || len(in.URI) > maxAddress:
		return a, sayf("an address has more than %d bytes", maxAddress)
	case len(in.CommitHash) > maxHash:
		return a, sayf("commitHash has more than %d bytes", maxHash)
	}
	if in.Type == "file" || in.Type == "resource" {
		u, err := url.Parse(in.URI)
		if err != nil || len(u.Scheme) < 2 { // a drive is no scheme
			return a, sayf("uri: a %s has an absolute URI with its scheme, such as file:///folder/file", in.Type)
		}
		if runs[u.Scheme] {
			return a, sayf("uri: what is recorded is shown, and %s: does something", u.Scheme)
		}
		if strings.HasPrefix(in.URI, linkScheme) {
			return a, sayf("uri: sessions and chats are listed by themselves: they are not recorded")
		}
		a.URI = in.URI
		return a, nil
	}
	u, err := url.Parse(in.Link) // clients open it: nothing but the web
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return a, sayf("link: a %s has an http or https address", in.Type)
	}
	a.Link = in.Link
	switch in.Type {
	case "commit":
		if a.CommitHash = strings.TrimSpace(in.CommitHash); a.CommitHash == "" {
			return a, sayf("commitHash is missing")
		}
	case "pullRequest", "issue":
		host := u.Hostname()
		github := host == "github.com" || strings.HasSuffix(host, ".github.com") || strings.HasPrefix(host, "github.")
		a.IsGitHub = &github
	}
	return a, nil
}

// recorded is what became of an artifact.
type recorded struct {
	ID     string `json:"id"`
	Status string `json:"status"` // added, promoted or known
}

func addArtifacts(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Items []json.RawMessage `json:"items" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if len(in.Items) == 0 || len(in.Items) > maxItems {
		return nil, sayf("items: 1 to %d at a time", maxItems)
	}
	var fresh []Artifact
	for i, item := range in.Items {
		var x artifactInput
		err := decode(item, &x)
		if err == nil {
			var a Artifact
			a, err = x.artifact()
			fresh = append(fresh, a)
		}
		if err != nil {
			return nil, sayf("items[%d]: %v", i, err)
		}
	}
	s, by, err := c.mine()
	if err != nil {
		return nil, err
	}
	var out []recorded
	full := false
	err = c.set.changeArtifacts(c.ctx, s, by, func(all []Artifact) []Artifact {
		before := slices.Clone(all)
		for _, a := range fresh {
			i := slices.IndexFunc(all, func(b Artifact) bool { return a.value() == b.value() })
			switch {
			case i < 0:
				all = append(all, a)
				out = append(out, recorded{a.ID, "added"})
			case a.IsArtifact && !all[i].IsArtifact:
				all[i].IsArtifact = true
				out = append(out, recorded{all[i].ID, "promoted"})
			default:
				out = append(out, recorded{all[i].ID, "known"})
			}
		}
		if full = len(all) > maxArtifacts; full {
			return before
		}
		return all
	})
	if full {
		return nil, sayf("a session has %d artifacts and references at most: remove some first", maxArtifacts)
	}
	return map[string]any{"recorded": out}, err
}

func removeArtifact(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	s, by, err := c.mine()
	if err != nil {
		return nil, err
	}
	gone, err := c.set.RemoveArtifact(c.ctx, s, in.ID, by)
	if err != nil {
		return nil, err
	}
	if gone == nil {
		return nil, sayf("there is none with the id %.80q; list_artifacts_and_references tells which there are", in.ID)
	}
	return map[string]any{"removed": gone}, nil
}

func listArtifacts(c *call, raw json.RawMessage) (any, error) {
	if err := decode(raw, &struct{}{}); err != nil {
		return nil, err
	}
	me, err := c.me()
	if err != nil {
		return nil, err
	}
	s, err := c.host.Session(c.ctx, me.Info.ID)
	if err != nil {
		return nil, err
	}
	info := s.State().Info
	all := Artifacts(&info)
	if all == nil {
		all = []Artifact{}
	}
	return map[string]any{"items": all}, nil
}

// mine is the session that calls, and its agent as the one who does something.
func (c *call) mine() (*host.Session, event.Actor, error) {
	by, err := c.actor()
	if err != nil {
		return nil, by, err
	}
	s, err := c.host.Session(c.ctx, c.from.Session)
	return s, by, err
}
