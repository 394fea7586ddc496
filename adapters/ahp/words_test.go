package ahp

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
)

// worded is the demo agent, which does a script when it is asked for words.
type worded struct {
	*demo.Backend

	mu     sync.Mutex
	script string
	asked  []agent.Open  // conversations outside of sessions
	last   string        // what was asked last
	holds  chan struct{} // it begins when this is closed, unless nil
}

func (w *worded) answers(script string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = script
}

func (w *worded) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	c, err := w.Backend.Open(ctx, o)
	if o.Bare {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked = append(w.asked, o)
	}
	return wordedTalk{c, w}, err
}

type wordedTalk struct {
	agent.Conversation
	w *worded
}

func (c wordedTalk) Prompt(ctx context.Context, p agent.Prompt) error {
	if strings.Contains(p.Text, "Find the words for") {
		c.w.mu.Lock()
		c.w.last, p.Text = p.Text, c.w.script
		holds := c.w.holds
		c.w.mu.Unlock()
		if holds != nil {
			<-holds
		}
	}
	return c.Conversation.Prompt(ctx, p)
}

func (p *peer) pushes(config object) object {
	p.t.Helper()
	return p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": config}))
}

func TestWordsOfACommitComeFromWhereTheSettingSays(t *testing.T) {
	t.Parallel()
	agent := &worded{Backend: demo.New()}
	g := newGateway(t, withAgent(t, agent))
	git, write := g.repository("a", "1\n")
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	p.dispatch(chat, started("t1", "say The roof leaks"))
	p.idle(chat, "t1")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	n := 0
	commit := func() (message, note string) {
		t.Helper()
		n++
		write("a", strings.Repeat("more\n", n+1))
		answer := p.call("invokeChangesetOperation", p.verb(uri, "commit", nil))
		note, _ = answer["message"].(string)
		return git("log", "-1", "--format=%B"), note
	}
	is := func(want, wantNote string) {
		t.Helper()
		if message, note := commit(); message != want || !strings.Contains(note, wantNote) || wantNote == "" && note != "" {
			t.Errorf("the commit says %q, the answer %q", message, note)
		}
	}
	confirms := func(words string) {
		t.Helper()
		p.until(uri, "the confirmation", func(s object) bool {
			ops, _ := s["operations"].([]any)
			for _, o := range ops {
				if c, _ := o.(object)["confirmation"].(string); o.(object)["id"] == "commit" && strings.HasPrefix(c, words) {
					return true
				}
			}
			return false
		})
	}
	is("say The roof leaks", "")
	confirms("Commit as 'say The roof leaks'?")

	for _, bad := range []object{{"mode": "moon"}, {}, {"mode": "model"}, {"mode": "model", "provider": "demo", "model": "none"}, {"mode": "model", "provider": "none", "model": "x"}} {
		if env := p.pushes(object{"changeWords": bad}); env["rejectionReason"] == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if env := p.pushes(object{"changeWordsTimeoutMs": -1}); env["rejectionReason"] == nil {
		t.Error("a time below zero was taken")
	}

	p.pushes(object{"changeWords": object{"mode": "forced"}})
	confirms("Commit in your own words?")
	write("a", "forced\n")
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "commit", nil))
	own := p.verb(uri, "commit", nil)
	own["_meta"] = object{"ahpd.commit": object{"message": "Mine"}}
	p.call("invokeChangesetOperation", own)
	if got := git("log", "-1", "--format=%B"); got != "Mine" {
		t.Errorf("the commit says %q", got)
	}

	p.pushes(object{"changeWords": object{"mode": "model", "provider": "demo", "model": "demo-large"}})
	agent.answers("say # Mend the roof\nrun touch ran\nsay It leaked.")
	is("Mend the roof\n\nrun touch ran\nIt leaked.", "")
	agent.mu.Lock()
	if len(agent.asked) != 1 || agent.asked[0].Settings.Model != "demo-large" || agent.asked[0].Dirs[0] == g.dir {
		t.Errorf("the conversations: %+v", agent.asked)
	}
	for _, dir := range agent.asked[0].Dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("its directory is left: %v", err)
		}
	}
	for _, part := range []string{`"main"`, `- "a"`, "+more", "The roof leaks"} {
		if !strings.Contains(agent.last, part) {
			t.Errorf("the question does not have %s:\n%s", part, agent.last)
		}
	}
	agent.mu.Unlock()
	if _, err := os.Stat(g.dir + "/ran"); !os.IsNotExist(err) {
		t.Errorf("the model ran a command: %v", err)
	}
	agent.answers("fail no")
	is("say The roof leaks", "not of the model: it failed")
	agent.answers("think nothing")
	is("say The roof leaks", "not of the model: it said nothing")
	p.pushes(object{"changeWordsTimeoutMs": 50})
	agent.answers("sleep 60000\nsay late")
	is("say The roof leaks", "not of the model: it did not answer in time")
	if list := p.call("listSessions", object{"channel": rootURI})["items"].([]any); len(list) != 1 {
		t.Errorf("the list has %s", show(list))
	}

	p.pushes(object{"changeWords": object{"mode": "agent"}, "changeWordsTimeoutMs": 0})
	agent.answers("say Close the window")
	is("Close the window", "")
	side := p.until("demo:/s", "the side chat", func(s object) bool { return len(s["chats"].([]any)) == 2 })["chats"].([]any)[1].(object)
	if side["origin"].(object)["kind"] != "sideChat" || side["origin"].(object)["turnId"] != "t1" {
		t.Errorf("the chat is %s", show(side))
	}
	p.pushes(object{"changeWordsTimeoutMs": 4000})
	agent.answers("sleep 60000\nsay late")
	is("say The roof leaks", "not of the session's agent: it did not answer in time")
	cancelled := p.until("demo:/s", "another side chat", func(s object) bool { return len(s["chats"].([]any)) == 3 })["chats"].([]any)[2].(object)["resource"].(string)
	p.subscribe(cancelled)
	p.until(cancelled, "the end of its turn", func(s object) bool {
		turns := s["turns"].([]any)
		return len(turns) == 1 && turns[0].(object)["state"] == "cancelled"
	})
	p.agree(g, "demo:/s", uri)

	// Nothing is committed for a session that goes while its words are looked for.
	p.pushes(object{"changeWords": object{"mode": "model", "provider": "demo", "model": "demo-large"}, "changeWordsTimeoutMs": 0})
	holds := make(chan struct{})
	agent.mu.Lock()
	agent.script, agent.last, agent.holds = "say Of nobody", "", holds
	agent.mu.Unlock()
	before := git("rev-parse", "HEAD")
	write("a", "of nobody\n")
	answer := p.ask("invokeChangesetOperation", p.verb(uri, "commit", nil))
	await(t, "the question", func() bool {
		agent.mu.Lock()
		defer agent.mu.Unlock()
		return agent.last != ""
	})
	g.connect("d").call("disposeSession", object{"channel": "demo:/s"})
	close(holds)
	if e, _ := answer()["error"].(object); e["code"] != -32001.0 {
		t.Errorf("the answer is %v", e)
	}
	if now := git("rev-parse", "HEAD"); now != before {
		t.Errorf("%s was committed", now)
	}
}

// A session in which nothing was said has nobody to ask.
func TestWordsOfASessionWithoutATurn(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n")
	p := g.connect("c")
	p.session(g, "demo:/s")
	p.pushes(object{"changeWords": object{"mode": "agent"}})
	write("a", "2\n")
	answer := p.call("invokeChangesetOperation", p.verb("demo:/s/changeset/uncommitted", "commit", nil))
	if note, _ := answer["message"].(string); !strings.Contains(note, "nothing was said to it") || git("log", "-1", "--format=%s") != "Changes of a session" {
		t.Errorf("the answer is %s", show(answer))
	}
}

func TestWordsAreReadOutOfAnAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]changeWords{
		"":                               {},
		"\n ## **Title** \n\nbody\nmore": {title: "Title", body: "body\nmore"},
		"`Title`":                        {title: "Title"},
		strings.Repeat("ä", 80) + "\nx":  {title: strings.Repeat("ä", maxWordsTitle), body: "x"},
	} {
		if got := readWords(answer); got != want {
			t.Errorf("%q gives %+v", answer, got)
		}
	}
}
