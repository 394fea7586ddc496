package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// Where the words of a commit and of a pull request come from when nobody gives
// them, in the setting changeWords.
const (
	wordsTitle  = "session-title" // the session's title, and the branch's commits
	wordsForced = "forced"        // a person must
	wordsModel  = "model"         // a model is asked, apart from the session
	wordsAgent  = "agent"         // the session's agent is, in a side chat
)

// wording is the setting.
type wording struct {
	Mode     string `json:"mode" jsonx:"required"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// changeWords are what a commit or a pull request says. note tells when they are not
// what was asked for, and why.
type changeWords struct{ title, body, note string }

func (w *changeWords) message() string {
	if w.body == "" {
		return w.title
	}
	return w.title + "\n\n" + w.body
}

// checkWording judges the form of the setting.
func checkWording(raw json.RawMessage) error {
	var w wording
	if err := jsonx.DecodeChecked(raw, &w); err != nil {
		return err
	}
	if w.Mode == wordsModel && (w.Provider == "" || w.Model == "") {
		return errors.New("the mode model names a provider and a model")
	}
	return nil
}

// checkServed judges what a client pushes of the setting: the model that is to be
// asked must be there.
func (f *Front) checkServed(raw json.RawMessage) error {
	var w wording
	_ = json.Unmarshal(raw, &w) // it was checked
	if w.Mode != wordsModel {
		return nil
	}
	a, ok := f.agentNamed(w.Provider)
	switch {
	case !ok:
		return fmt.Errorf("this host has no provider %.80q", w.Provider)
	case w.Model == anyModel && len(a.Info.Models) == 0:
		return nil
	case !slices.ContainsFunc(a.Info.Models, func(m agent.Model) bool { return m.ID == w.Model }):
		return fmt.Errorf("%s lists no model %.80q", w.Provider, w.Model)
	}
	return nil
}

// wording is the setting as it is now, and how long an answer may take; 0 is as
// long as it likes.
func (f *Front) wording() (wording, time.Duration) {
	f.settings.mu.Lock()
	v := f.settings.values
	f.settings.mu.Unlock()
	w, within := wording{Mode: wordsTitle}, wordsWithin
	_ = json.Unmarshal(v[keyWords], &w) // it was checked; absent: as it is
	if n, ok := bytesOf(v[keyWordsTime]); ok {
		within = time.Duration(n) * time.Millisecond
	}
	return w, within
}

// asWhom is what a person is told before a commit.
func (f *Front) asWhom(sum *host.Summary) string {
	switch w, _ := f.wording(); w.Mode {
	case wordsForced:
		return "Commit in your own words?"
	case wordsModel:
		return fmt.Sprintf("Commit in words of %s?", clip(w.Model))
	case wordsAgent:
		return "Commit in words of the session's agent?"
	}
	return fmt.Sprintf("Commit as '%s'?", subject(sum))
}

// namedChange is what there are words to be found for.
type namedChange struct {
	tree   *git.Tree
	status *git.Status
	path   string // "" is all of it
	pull   *pull  // nil for a commit
}

// wordsFor finds the words of a change that nobody gave any for.
func (c *conn) wordsFor(ctx context.Context, at *scoped, sum *host.Summary, what namedChange) (changeWords, error) {
	given := changeWords{title: subject(sum)}
	if what.pull != nil {
		given.body = what.pull.body()
	}
	w, within := c.front.wording()
	switch w.Mode {
	case wordsForced:
		return changeWords{}, errForced
	case wordsTitle:
		return given, nil
	}
	limited, cancel := ctx, func() {}
	if within > 0 {
		limited, cancel = context.WithTimeout(ctx, within)
	}
	defer cancel()
	answer, err := c.askForWords(limited, at, w, what)
	found := readWords(answer)
	_, there := c.front.host.Summary(at.session)
	switch {
	case ctx.Err() != nil:
		return changeWords{}, ctx.Err()
	case !there: // somebody disposed of it meanwhile
		return changeWords{}, sessionNotFound(at.sessionURI)
	case err == nil && found.title != "":
		return found, nil
	}
	who, why := "the model", "it said nothing"
	if w.Mode == wordsAgent {
		who = "the session's agent"
	}
	switch {
	case limited.Err() != nil:
		why = "it did not answer in time"
	case errors.Is(err, errNothingSaid):
		why = "nothing was said to it in this session"
	case err != nil:
		why = "it failed"
	}
	c.log.Warn("No words were found for a change", "session", at.session.String(), "mode", w.Mode, "err", err)
	given.note = fmt.Sprintf("The words are the session's title, and not of %s: %s", who, why)
	return given, nil
}

var (
	errForced      = invalid("_meta: this host takes the words of a person alone, and there are none")
	errNothingSaid = errors.New("nothing was said in the session")
)

func (c *conn) askForWords(ctx context.Context, at *scoped, w wording, what namedChange) (string, error) {
	s, err := c.front.host.Session(ctx, at.session)
	if err != nil {
		return "", err
	}
	question, err := what.question(ctx)
	if err != nil {
		return "", err
	}
	if w.Mode == wordsAgent {
		return c.askAgent(ctx, s, question)
	}
	said, err := transcript(ctx, s, s.State().Default, "")
	if err != nil {
		return "", err
	}
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[len(said)-maxSaid:], "")
	}
	if w.Model == anyModel {
		w.Model = ""
	}
	return c.front.host.Ask(ctx, host.Question{Backend: w.Provider, Model: w.Model, Tokens: c.lentFor(w.Provider),
		Text: question + "\nWhat was said about it:\n" + said})
}

// askAgent asks in a side chat of the newest turn, which stays.
func (c *conn) askAgent(ctx context.Context, s *host.Session, question string) (string, error) {
	st := s.State()
	from := st.DefaultChat()
	if from == nil || len(from.Turns) == 0 {
		return "", errNothingSaid
	}
	chat, err := s.ForkChat(ctx, host.ForkChat{Chat: from.ID, Turn: from.Turns[len(from.Turns)-1].ID, Side: true,
		Info: event.ChatInfo{Title: "Words of a change"}, By: c.actor()})
	if err != nil {
		return "", err
	}
	c.lendTo(s)
	turn := id.New()
	_, err = s.Prompt(ctx, host.Prompt{Chat: chat, Turn: turn, Text: question, By: c.actor(), System: true})
	var t *state.Turn
	if err == nil {
		t, err = s.WaitTurn(ctx, chat, turn)
	}
	if ctx.Err() != nil { // it may run even if that was not heard in time
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		if _, err := s.Interrupt(late, host.Interrupt{Chat: chat, Turn: turn, By: event.Gateway}); err != nil {
			c.log.Warn("A question could not be cancelled", "session", s.ID().String(), "err", err)
		}
		return "", ctx.Err()
	}
	if err != nil {
		return "", err
	}
	if t.Status != event.TurnComplete {
		return "", errors.New("the turn did not end well")
	}
	var said []string
	for _, p := range t.Parts {
		if p.Kind == event.PartText {
			said = append(said, p.Text.String())
		}
	}
	return strings.Join(said, "\n"), nil
}

// question is what is asked.
func (n *namedChange) question(ctx context.Context) (string, error) {
	kind, remote, base := "a commit", "", ""
	if n.pull != nil {
		kind, remote, base = "a pull request", n.pull.remote, n.pull.context.Base
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Find the words for %s of the changes below. Your answer is its title, in one line of %d characters at most, "+
		"then an empty line, then its description in Markdown, and nothing before or after that.\n", kind, maxWordsTitle)
	fmt.Fprintf(&b, "\nThe branch is %q.", n.status.Branch.Name)
	if base != "" {
		fmt.Fprintf(&b, " It goes to %q.", base)
	}
	path, index, listed := n.path, false, 0
	if path == "" {
		path = n.tree.Prefix
		index = n.pull == nil && slices.ContainsFunc(n.status.Files, func(f git.File) bool { return f.Staged })
	}
	b.WriteString("\nThe changed files are:\n")
	for _, f := range n.status.Files {
		if index && !f.Staged || n.path != "" && !inDir("/"+f.Path, "/"+n.path) {
			continue
		}
		if listed++; listed > maxWordsFiles {
			b.WriteString("and more\n")
			break
		}
		fmt.Fprintf(&b, "- %q\n", f.Path)
	}
	if n.status.Branch.Commit == "" {
		return b.String(), nil // everything is new
	}
	diff, err := n.tree.Diff(ctx, path, index, remote, base, maxWordsDiff)
	if err != nil && base != "" { // the base is not here
		diff, err = n.tree.Diff(ctx, path, false, "", "", maxWordsDiff)
	}
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\nThe difference is:\n%s\n", strings.ToValidUTF8(diff, "\uFFFD"))
	return b.String(), nil
}

// readWords takes an answer apart.
func readWords(answer string) changeWords {
	title, body, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	title = strings.Trim(title, " \t\r#*`\"'")
	if r := []rune(title); len(r) > maxWordsTitle {
		title = strings.TrimSpace(string(r[:maxWordsTitle]))
	}
	return changeWords{title: title, body: strings.TrimSpace(body)}
}
