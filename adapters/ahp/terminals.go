package ahp

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/terminal"
)

const terminalScheme = "ahp-terminal"

// terminals serves the channels of the host's terminals. A channel says what
// the terminal's watcher hears, under the terminal's lock, and its snapshots
// are made under it too. Locks are taken in this order: the terminal's, the
// root channel's, terminals.mu, term.mu.
type terminals struct {
	front *Front

	mu    sync.Mutex
	list  []*term
	byURI map[string]*term // those that are being opened included
	byID  map[id.ID]*term
}

// term is one terminal as clients have it.
type term struct {
	front *Front
	uri   string
	shell *terminal.Terminal // nil while it is being opened

	mu     sync.Mutex
	info   terminalInfo
	since  time.Time // when it was claimed
	ch     *channel  // nil while nobody follows
	took   time.Time
	unread int // bytes said since somebody was seen to watch
}

func newTerminals(f *Front) *terminals {
	return &terminals{front: f, byURI: map[string]*term{}, byID: map[id.ID]*term{}}
}

// isTerminal reports whether a URI names a terminal, there or not.
func isTerminal(uri string) bool {
	name, ok := strings.CutPrefix(uri, terminalScheme+":/")
	return ok && name != ""
}

func (t *terminals) owns(uri string) bool { return strings.HasPrefix(uri, terminalScheme+":") }

// find gives the terminal of a URI, or nil.
func (t *terminals) find(uri string) *term {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.byURI[uri]; x != nil && x.shell != nil {
		return x
	}
	return nil
}

// infos are the terminals as the root channel lists them.
func (t *terminals) infos() []terminalInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]terminalInfo, len(t.list))
	for i, x := range t.list {
		x.mu.Lock()
		out[i] = x.info
		x.mu.Unlock()
	}
	return out
}

// clientTerm is a terminal that a client has.
type clientTerm struct {
	shell  *terminal.Terminal
	client string
	since  time.Time // when it was claimed
}

// ofClients are the terminals that clients have, the oldest first.
func (t *terminals) ofClients() (out []clientTerm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.list {
		x.mu.Lock()
		if x.info.Claim.Kind == "client" {
			out = append(out, clientTerm{x.shell, x.info.Claim.ClientID, x.since})
		}
		x.mu.Unlock()
	}
	return out
}

// abandoned are the terminals of clients that are not known any more, or not yet:
// such a client has as long to come as one that left.
func (f *Front) abandoned(now time.Time) []*terminal.Terminal {
	return f.terminalsWhere(func(t *clientTerm) bool { return f.clients[t.client] == nil && now.Sub(t.since) > clientMemory })
}

// terminalsWhere are terminals of clients; ok is asked under the lock.
func (f *Front) terminalsWhere(ok func(t *clientTerm) bool) (out []*terminal.Terminal) {
	all := f.terminals.ofClients()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range all {
		if ok(&all[i]) {
			out = append(out, all[i].shell)
		}
	}
	return out
}

// openTerminal opens one for a client. When there are too many, the oldest whose
// client is away makes room.
func (f *Front) openTerminal(o terminal.Open) error {
	_, err := f.host.Terminals().Open(o)
	if errors.Is(err, terminal.ErrFull) {
		away := f.terminalsWhere(func(t *clientTerm) bool { c := f.clients[t.client]; return c == nil || c.conns == 0 })
		if len(away) > 0 {
			f.host.Terminals().Remove(away[0])
			_, err = f.host.Terminals().Open(o)
		}
	}
	return err
}

// reserve keeps a name for a terminal that is about to be opened.
func (t *terminals) reserve(x *term, terminal id.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byURI[x.uri] != nil {
		return false
	}
	t.byURI[x.uri], t.byID[terminal] = x, x
	return true
}

// giveUp frees the name of a terminal that could not be opened.
func (t *terminals) giveUp(x *term, terminal id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byURI, x.uri)
	delete(t.byID, terminal)
}

// changed hears of every terminal of the host that is opened or removed.
func (t *terminals) changed(shell *terminal.Terminal, open bool) {
	if open {
		t.met(shell)
	} else {
		t.gone(shell)
	}
	t.front.root.terminalsChanged()
}

func (t *terminals) met(shell *terminal.Terminal) {
	t.mu.Lock()
	x := t.byID[shell.ID]
	if x == nil { // the host's own
		x = &term{front: t.front, uri: terminalURI(shell.ID)}
		x.info = terminalInfo{Resource: x.uri, Claim: t.front.claimOf(shell.Owner())}
		t.byURI[x.uri], t.byID[shell.ID] = x, x
	}
	t.mu.Unlock()
	shell.Watch(func(st *terminal.State) {
		x.info.Title, x.info.Lifecycle = st.Title, lifecycleOf(st.Exited, st.Code)
		t.mu.Lock()
		defer t.mu.Unlock()
		x.shell = shell
		t.list = append(t.list, x)
	}, x.happened)
}

func (t *terminals) gone(shell *terminal.Terminal) {
	t.mu.Lock()
	x := t.byID[shell.ID]
	delete(t.byID, shell.ID)
	delete(t.byURI, x.uri)
	for i := range t.list {
		if t.list[i] == x {
			t.list = append(t.list[:i:i], t.list[i+1:]...)
			break
		}
	}
	t.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ch != nil {
		t.front.journal.close(x.ch)
	}
}

func terminalURI(terminal id.ID) string { return terminalScheme + ":/" + terminal.String() }

// claimOf is the claim of a session that opened a terminal by itself. It is
// whole even when the session or the chat has gone meanwhile.
func (f *Front) claimOf(o terminal.Owner) terminalClaim {
	c := terminalClaim{Kind: "session", Session: o.Session.AHP(sessionAlias), TurnID: f.turnNamed(o), ToolCallID: o.Call}
	sum, ok := f.host.Summary(o.Session)
	if ok {
		c.Session = sessionURI(&sum.Info)
	}
	var aliases map[string]string
	for i := range sum.Chats {
		if info := &sum.Chats[i].Info; info.ID == o.Chat {
			aliases = info.Aliases
		}
	}
	c.Chat = speller{c.Session}.chat(o.Chat, sum.Default, aliases)
	return c
}

// turnNamed is the name here of the turn that a session opened a terminal for.
func (f *Front) turnNamed(o terminal.Owner) string {
	s, err := f.host.Session(f.ctx, o.Session)
	if err != nil {
		return o.Turn
	}
	if c := s.State().Chat(o.Chat); c != nil && c.Active != nil && c.Active.ID.String() == o.Turn {
		return turnID(c.Active)
	}
	return o.Turn
}

// happened tells an event of the shell's, under the terminal's lock.
func (x *term) happened(e *terminal.Event) {
	o, _ := e.Cause.(*origin)
	x.mu.Lock()
	switch e.Kind {
	case terminal.Titled:
		x.info.Title = e.Text
	case terminal.Exited:
		x.info.Lifecycle = lifecycleOf(true, e.Code)
	}
	x.say(terminalAction(e), o)
	x.mu.Unlock()
	if e.Kind == terminal.Exited {
		x.front.changesets.wrote("") // whatever ran in it
	}
	if e.Kind == terminal.Titled || e.Kind == terminal.Exited {
		x.front.root.terminalsChanged()
	}
}

// say says an action to those who follow; the caller holds mu. A channel that
// nobody watched for a while is closed, so that it does not push others'
// history out of the journal.
func (x *term) say(action []byte, o *origin) {
	if x.ch == nil {
		return
	}
	if x.unread += len(action); x.unread > terminalUnread {
		x.unread = 0
		if time.Since(x.took) > terminalUnwatched && !x.front.journal.watched(x.ch) {
			x.front.journal.close(x.ch)
			x.ch = nil
			return
		}
	}
	x.front.journal.publish(x.ch, x.ch.action(action), o)
}

func (t *terminals) take(_ context.Context, uri string) (taken, error) {
	x := t.find(uri)
	if x == nil {
		return taken{}, notFound(uri)
	}
	var out taken
	x.shell.View(func(st *terminal.State) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.ch == nil {
			x.ch = t.front.journal.open(uri)
		}
		x.took, x.unread = time.Now(), 0
		out = taken{ch: x.ch, held: held{ch: x.ch}}
		out.Resource, out.State = uri, stateOf(st, x.info.Claim)
		out.FromSeq, out.pos = t.front.journal.promise(out.ch)
	})
	return out, nil
}

func (t *terminals) opened(uri string) (held, error) {
	x := t.find(uri)
	if x == nil {
		return held{}, notFound(uri)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return held{ch: x.ch}, nil
}

// released: a terminal goes on without watchers.
func (t *terminals) released(string) {}
