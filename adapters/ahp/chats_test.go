package ahp

import (
	"fmt"
	"os"
	"path/filepath"
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
		p.until(chat, "the first turn alone", func(s object) bool { return fmt.Sprint(texts(s)) == "[say one]" })
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
	if e := p.echo(p.dispatch(chat, object{"type": "chat/truncated", "turnId": "t5"})); e["rejectionReason"] != nil {
		t.Fatalf("a turn that was cancelled: refused: %v", e)
	}
	p.says(chat, "t7", "say more")
	if got := heard("say more"); fmt.Sprint(got) != "[say one say other ask Which? | red say more]" {
		t.Errorf("the agent heard %q", got)
	}
	p.says(chat, "t8", "crash")
	p.says(chat, "t9", "say after")
	p.refused(chat, object{"type": "chat/truncated", "turnId": "t8"}, "cannot go back")
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

// places are the names of a session's chats, in order.
func (p *peer) places(session string) (out []any) {
	for _, c := range p.state(session)["chats"].([]any) {
		out = append(out, c.(object)["resource"])
	}
	return out
}

func TestChatsMoveInsideTheirSession(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	main := p.session(g, sess)
	a, b := "ahp-chat:/a", "ahp-chat:/b"
	p.call("createChat", object{"channel": sess, "chat": a})
	p.call("createChat", object{"channel": sess, "chat": b})
	to := func(after any) object { return object{"kind": "session", "session": sess, "after": after} }
	first := object{"kind": "session", "session": sess}
	if r := p.call("moveChat", object{"channel": b, "destination": first}); r["session"] != sess {
		t.Errorf("the answer is %v", r)
	}
	if got := fmt.Sprint(p.places(sess)); got != fmt.Sprint([]any{b, main, a}) {
		t.Errorf("the order is %v", got)
	}
	p.call("moveChat", object{"channel": b, "destination": to(main)})
	if got := fmt.Sprint(p.places(sess)); got != fmt.Sprint([]any{main, b, a}) {
		t.Errorf("the order is %v", got)
	}
	p.dispatch(a, started("t1", "ask Which? | red"))
	p.until(sess, "the question", func(s object) bool { return s["inputNeeded"] != nil })
	for what, params := range map[string]object{
		"the default chat": {"channel": main, "destination": first}, "a running one": {"channel": a, "destination": first},
		"behind itself": {"channel": b, "destination": to(b)}, "behind none": {"channel": b, "destination": to("ahp-chat:/no")},
		"to no session": {"channel": b, "destination": object{"kind": "session", "session": "demo:/no"}},
		"nowhere":       {"channel": b, "destination": object{"kind": "up"}}, "without a place": {"channel": b},
	} {
		if e := p.fails(-32602, "moveChat", params); e["message"] == "" {
			t.Errorf("%s: refused without a word", what)
		}
	}
	p.fails(codeNotFound, "moveChat", object{"channel": "ahp-chat:/no", "destination": first})
	p.agree(g, sess)
	g.stop()
	g.start()
	q := g.connect("later")
	q.subscribe(sess)
	if got := fmt.Sprint(q.places(sess)); got != fmt.Sprint([]any{main, b, a}) {
		t.Errorf("after a restart the order is %v", got)
	}
}

func TestAChatMovesToAnotherSessionWithWhoWatchesIt(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p, q := g.connect("one"), g.connect("two")
	main := p.session(g, sess)
	other := "demo:/other"
	p.session(g, other)
	p.says(main, "t1", "say main")
	chat := "ahp-chat:/wanders"
	p.call("createChat", object{"channel": sess, "chat": chat, "source": source("sideChat", main, "t1")})
	p.subscribe(chat)
	q.subscribe(chat)
	p.says(chat, "t2", "fail one")
	p.says(chat, "t3", "spawn helper say below")
	worker := p.places(sess)[2].(string)
	p.subscribe(worker)
	from := p.mark()
	if r := p.call("moveChat", object{"channel": chat, "destination": object{"kind": "session", "session": other}}); r["session"] != other {
		t.Errorf("the answer is %v", r)
	}
	_, removed := p.action(from, sess, "session/chatRemoved")
	_, added := p.action(from, other, "session/chatAdded")
	if _, ordered := p.action(from, other, "session/chatsReordered"); removed > added || added > ordered {
		t.Errorf("it was told as removed, added, ordered at %d, %d, %d", removed, added, ordered)
	}
	if got := fmt.Sprint(p.places(sess)); got != fmt.Sprint([]any{main}) {
		t.Errorf("left are %v", got)
	}
	if got := p.places(other); len(got) != 3 || got[0] != chat || got[2] != worker {
		t.Errorf("the other session has %v", got)
	}
	p.agree(g, sess, other, chat, worker)
	q.says(chat, "t4", "say two")
	p.idle(chat, "t4")
	if got := heard("say two"); len(got) != 3 {
		t.Errorf("its agent remembers %q", got)
	}
	for _, p := range []*peer{p, q} {
		p.agree(g, chat)
	}
	p.agree(g, sess, other)
}

func TestAChatMovesToASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p := g.connect("one")
	main := p.session(g, sess)
	p.says(main, "t1", "say main")
	chat := "ahp-chat:/alone"
	p.call("createChat", object{"channel": sess, "chat": chat})
	p.subscribe(chat)
	p.says(chat, "t2", "say one")
	to := p.call("moveChat", object{"channel": chat, "destination": object{"kind": "newSession"}})["session"].(string)
	if !strings.HasPrefix(to, "demo:/demo-") {
		t.Errorf("the new session is %s", to)
	}
	s := p.subscribe(to)["state"].(object)
	if s["defaultChat"] != chat || len(s["chats"].([]any)) != 1 || s["chats"].([]any)[0].(object)["movable"] != false {
		t.Errorf("it is %s", show(s))
	}
	p.wait(0, "its row", func(f object) bool { return p.rows[to] != nil && p.rows[to]["defaultChat"] == chat })
	p.agree(g, sess, to, chat)
	p.says(chat, "t3", "say two")
	if got := heard("say two"); fmt.Sprint(got) != "[say one say two]" {
		t.Errorf("its agent remembers %q", got)
	}
	p.agree(g, sess, to, chat)
	g.stop()
	g.start(change)
	later := g.connect("later")
	if got := texts(later.subscribe(chat)["state"].(object)); fmt.Sprint(got) != "[say one say two]" {
		t.Errorf("after a restart it shows %v", got)
	}
}

func TestAChatWorksInSomeOfItsSessionsDirectories(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("one"), g.connect("two")
	main := p.session(g, sess)
	second, third := t.TempDir(), t.TempDir()
	for _, dir := range []string{second, third} {
		p.echo(p.dispatch(sess, object{"type": "session/workingDirectorySet", "directory": fileURI(dir)}))
	}
	q.subscribe(main)
	dirs := func(dirs ...string) string { return fmt.Sprint(dirURIs(dirs)) }
	change := func(chat, verb, dir, want string) {
		t.Helper()
		if e := p.echo(p.dispatch(chat, object{"type": "chat/workingDirectory" + verb, "directory": fileURI(dir)})); e["rejectionReason"] != nil {
			t.Fatalf("refused: %v", e)
		}
		if got := fmt.Sprint(p.state(chat)["workingDirectories"]); got != want {
			t.Errorf("it works in %v", got)
		}
		p.agree(g, sess, chat)
		q.agree(g, main)
	}
	change(main, "Removed", second, dirs(g.dir, third))
	change(main, "Set", second, dirs(g.dir, third, second))
	change(main, "Set", second, dirs(g.dir, third, second))
	p.refused(main, object{"type": "chat/workingDirectoryRemoved", "directory": fileURI(g.dir)}, "where the agent runs")
	p.refused(main, object{"type": "chat/workingDirectorySet", "directory": fileURI(t.TempDir())}, "none of the session's")
	p.refused(main, object{"type": "chat/workingDirectorySet", "directory": "http://x/"}, "file:")
	side := "ahp-chat:/side"
	p.fails(-32602, "createChat", object{"channel": sess, "chat": side, "workingDirectories": []string{fileURI(t.TempDir())}})
	p.call("createChat", object{"channel": sess, "chat": side, "workingDirectories": []string{fileURI(second)}})
	p.subscribe(side)
	turn := p.says(side, "t1", "!pwd")
	if !strings.Contains(show(turn), second) {
		t.Errorf("it ran elsewhere: %s", show(turn))
	}
	plain := "ahp-chat:/plain"
	p.call("createChat", object{"channel": sess, "chat": plain})
	p.subscribe(plain)
	change(plain, "Set", third, dirs(g.dir, second, third))
	// What the session loses its chats lose.
	p.echo(p.dispatch(sess, object{"type": "session/workingDirectoryRemoved", "directory": fileURI(third)}))
	p.until(main, "the loss", func(s object) bool { return fmt.Sprint(s["workingDirectories"]) == dirs(g.dir, second) })
	p.agree(g, sess, main, side, plain)
	p.dispatch(main, started("t2", "ask Which? | red"))
	p.action(0, main, "chat/inputRequested")
	p.refused(main, object{"type": "chat/workingDirectoryRemoved", "directory": fileURI(second)}, "running")
}

// offered are what completes the end of a text: what is inserted, in order.
func (p *peer) offered(channel, text string) (inserted []string, items []any) {
	p.t.Helper()
	items = p.call("completions", object{"kind": "userMessage", "channel": channel, "text": text, "offset": len(text)})["items"].([]any)
	for _, v := range items {
		it := v.(object)
		if it["rangeEnd"] != float64(len(text)) {
			p.t.Errorf("the range of %s ends elsewhere: %v", text, it)
		}
		inserted = append(inserted, it["insertText"].(string))
	}
	return inserted, items
}

func TestChatsAndFilesAreOffered(t *testing.T) {
	t.Parallel()
	change, heard := remembers(t)
	g := newGateway(t, change)
	p := g.connect("one")
	main := p.session(g, sess)
	second := t.TempDir()
	for _, file := range []string{filepath.Join(g.dir, "chapter.md"), filepath.Join(second, "chapter2.md")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.echo(p.dispatch(sess, object{"type": "session/workingDirectorySet", "directory": fileURI(second)}))
	p.says(main, "t1", "say the blue door")
	p.says(main, "t2", "spawn helper say below")
	side := "ahp-chat:/side"
	p.call("createChat", object{"channel": sess, "chat": side})
	p.subscribe(side)
	p.echo(p.dispatch(side, object{"type": "session/titleChanged", "title": "Paint"}))
	files := "#chapter.md #" + filepath.Base(second) + "/chapter2.md"
	for text, want := range map[string]string{
		"look at #chat:pai": "#chat:Paint", "#CHAT:": "#chat:Paint", "#chat:none": "", "#cha": "#chat:Paint " + files, "#chap": files,
		"@chapter2": "@" + filepath.Base(second) + "/chapter2.md",
	} {
		if got, _ := p.offered(main, text); strings.Join(got, " ") != want {
			t.Errorf("%s is completed by %q", text, got)
		}
	}
	got, items := p.offered(side, "#chat:")
	if len(got) != 1 {
		t.Fatalf("in the other chat it is completed by %q", got)
	}
	a := items[0].(object)["attachment"].(object)
	if a["type"] != "chat" || a["resource"] != main || a["endTurn"] != "t2" {
		t.Errorf("the attachment is %v", a)
	}
	a["endTurn"] = "t1"
	with := func(turn string, a object) object {
		return object{"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-02T03:04:05.678Z",
			"message": object{"text": "say thanks", "origin": object{"kind": "user"}, "attachments": []any{a}}}
	}
	p.dispatch(side, with("t3", a))
	p.idle(side, "t3")
	if got := heard("say thanks"); len(got) != 1 {
		t.Errorf("the agent heard %q", got)
	}
	sid, _ := g.front.findSession(sess)
	s, err := g.host.Session(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	_, chat, _ := g.host.ByAlias(front, side)
	if given := s.State().Chat(chat).Turns[0].Message.Attachments; len(given) != 1 || !strings.Contains(given[0].Text, "the blue door") || strings.Contains(given[0].Text, "spawn") {
		t.Errorf("the agent was given %v", given)
	}
	p.agree(g, side)
	p.refused(side, with("t4", object{"type": "chat", "label": "x", "resource": "ahp-chat:/no"}), "no such chat")
	p.refused(side, with("t5", object{"type": "chat", "label": "x", "resource": main, "endTurn": "t9"}), "no such finished turn")
}
