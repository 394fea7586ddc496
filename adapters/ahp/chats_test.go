package ahp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
)

// source is where a new chat comes from.
func source(kind, chat string, turn any) object {
	return object{"kind": kind, "chat": chat, "turnId": turn}
}

// says runs a turn of text and returns it.
func (p *peer) says(chat, turn, text string) object {
	p.t.Helper()
	p.dispatch(chat, started(turn, text))
	return p.idle(chat, turn)
}

// texts are the messages of a chat's finished turns.
func texts(state object) (out []string) {
	for _, t := range state["turns"].([]any) {
		out = append(out, t.(object)["message"].(object)["text"].(string))
	}
	return out
}

// remembers gives the demo agent a memory on disk and returns what it heard in
// a conversation that ended with a prompt.
func remembers(t *testing.T) (change func(*host.Options), heard func(last string) []string) {
	b := &demo.Backend{Keep: t.TempDir()}
	return func(o *host.Options) { o.Backends = []host.NamedBackend{{Name: "demo", Backend: b}} },
		func(last string) []string {
			t.Helper()
			page, err := b.Conversations(t.Context(), agent.ConversationQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.Conversations {
				h, err := b.History(t.Context(), agent.HistoryQuery{ID: c.ID})
				if err != nil {
					t.Fatal(err)
				}
				var out []string
				for _, turn := range h.Turns {
					out = append(out, turn.Prompt)
				}
				if len(out) > 0 && strings.HasSuffix(out[len(out)-1], last) {
					return out
				}
			}
			t.Fatalf("no conversation ends with %q", last)
			return nil
		}
}

func TestAForkedChatGoesOnFromItsTurn(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.says(chat, "t1", "say one")
	p.says(chat, "t2", "say two")
	fork := "ahp-chat:/fork"
	p.call("createChat", object{"channel": sess, "chat": fork, "source": source("fork", chat, "t1")})
	if got := texts(p.subscribe(fork)["state"].(object)); fmt.Sprint(got) != "[say one]" {
		t.Errorf("the fork shows %v", got)
	}
	if o := p.state(fork)["origin"]; show(o) != show(source("fork", chat, "t1")) {
		t.Errorf("its origin is %v", o)
	}
	p.says(fork, "t3", "say other")
	if got := heard("say other"); fmt.Sprint(got) != "[say one say other]" {
		t.Errorf("the agent of the fork heard %q", got)
	}
	p.agree(g, fork, chat, sess)
}

func TestASideChatIsToldOfItsTurn(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say the blue door\nask Which? | red"))
	p.action(0, chat, "chat/inputRequested")
	side := "ahp-chat:/side"
	about := source("sideChat", chat, "t1")
	about["selection"] = object{"text": "blue"}
	p.call("createChat", object{"channel": sess, "chat": side, "source": about})
	if s := p.subscribe(side)["state"].(object); len(texts(s)) != 0 || show(s["origin"]) != show(about) {
		t.Errorf("the side chat is %s", show(s))
	}
	p.says(side, "t2", "say first")
	p.says(side, "t3", "say second")
	got := heard("say second")
	if len(got) != 2 || !strings.Contains(got[0], "the blue door") || got[1] != "say second" {
		t.Errorf("its agent heard %q", got)
	}
	p.agree(g, side, chat, sess)
}

func TestSourcesThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	other := p.session(g, "demo:/other")
	p.says(chat, "t1", "say one")
	p.dispatch(chat, started("t2", "ask Which? | red"))
	p.action(0, chat, "chat/inputRequested")
	for name, s := range map[string]any{
		"of another kind": source("copy", chat, "t1"), "of another session": source("fork", other, "t1"), "of no chat": source("fork", "ahp-chat:/no", "t1"),
		"of itself": source("fork", "ahp-chat:/new", "t1"), "of no turn": source("sideChat", chat, "t9"), "of a session": source("fork", sess, "t1"),
		"without a turn": object{"kind": "fork", "chat": chat}, "no object": 5,
	} {
		if e := p.fails(-32602, "createChat", object{"channel": sess, "chat": "ahp-chat:/new", "source": s}); e["message"] == "" {
			t.Errorf("a source %s is refused without a word", name)
		}
	}
	p.fails(codeTurnInProgress, "createChat", object{"channel": sess, "chat": "ahp-chat:/new", "source": source("fork", chat, "t2")})
	p.agree(g, chat, sess)
}

func TestTruncatedTurnsAreForgotten(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p, q := g.connect("one"), g.connect("two")
	chat := p.session(g, sess)
	p.refused(chat, object{"type": "chat/truncated"}, "first message")
	p.refused(chat, object{"type": "chat/truncated", "turnId": "t1"}, "no such turn")
	p.says(chat, "t1", "say one")
	p.says(chat, "t2", "say two")
	p.says(chat, "t3", "fail three")
	// A client that has the newest turn alone learns of the one that stays.
	q.call("subscribe", object{"channel": chat, "view": object{"turns": 1}})
	q.subscribe(sess)
	p.refused(chat, object{"type": "chat/truncated", "turnId": "t3"}, "no turn follows")
	if e := p.echo(p.dispatch(chat, object{"type": "chat/truncated", "turnId": "t1"})); e["rejectionReason"] != nil {
		t.Fatalf("refused: %v", e)
	}
	for _, p := range []*peer{p, q} {
		p.until(chat, "one turn", func(s object) bool { return len(s["turns"].([]any)) == 1 })
		if got := texts(p.state(chat)); fmt.Sprint(got) != "[say one]" {
			t.Errorf("left is %v", got)
		}
		p.agree(g, chat, sess)
	}
	p.says(chat, "t4", "say other")
	if got := heard("say other"); fmt.Sprint(got) != "[say one say other]" {
		t.Errorf("the agent heard %q", got)
	}
	p.dispatch(chat, started("t5", "ask Which? | red"))
	p.action(0, chat, "chat/inputRequested")
	p.refused(chat, object{"type": "chat/truncated", "turnId": "t1"}, "running")
	p.echo(p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t5", "duration": 1}))
	p.says(chat, "t6", "say after")
	p.refused(chat, object{"type": "chat/truncated", "turnId": "t5"}, "cannot go back")
	p.agree(g, chat, sess)
}

func TestTheDefaultNameIsASuccessorsWhenItsChatIsDisposed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.says(chat, "t1", "say one")
	p.fails(-32602, "disposeChat", object{"channel": chat})
	side := "ahp-chat:/side"
	p.call("createChat", object{"channel": sess, "chat": side})
	p.subscribe(side)
	p.says(side, "t2", "say two")
	p.call("disposeChat", object{"channel": chat})
	changed, _ := p.action(0, sess, "session/defaultChatChanged")
	if changed["defaultChat"] != chat {
		t.Errorf("the default chat is %v", changed)
	}
	p.agree(g, sess, side)
	if got := texts(p.subscribe(chat)["state"].(object)); fmt.Sprint(got) != "[say two]" {
		t.Errorf("under the default name are %v", got)
	}
	p.says(chat, "t3", "say three")
	p.until(side, "the turn under its old name", func(s object) bool { return len(texts(s)) == 2 })
	p.agree(g, sess, chat, side)
	p.fails(-32602, "disposeChat", object{"channel": chat})
}
