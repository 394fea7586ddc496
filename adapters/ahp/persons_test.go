package ahp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
	"github.com/polyhost/polyhost/core/users"
)

// peopled is a gateway with a user, and the user's token.
func peopled(t *testing.T) (g *gateway, token string) {
	t.Helper()
	g = &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New()}
	token, err := users.In(g.home).Add("ann")
	if err != nil {
		t.Fatal(err)
	}
	g.start()
	return g, token
}

func signs(token string) object {
	return object{"channel": rootURI, "resource": "ahpd://users", "token": token}
}

func senderIn(o any) any {
	meta, _ := o.(object)["_meta"].(object)
	return meta[senderKey]
}

func TestATurnSaysWhoSentIt(t *testing.T) {
	t.Parallel()
	g, token := peopled(t)
	ann, other := g.connect("ann"), g.connect("other")
	agents := ann.state(rootURI)["agents"].([]any)
	if text := show(agents[0].(object)["protectedResources"]); !strings.Contains(text, `{"required":false,"resource":"ahpd://users","resource_name":"The users of this host"}`) {
		t.Errorf("an agent names %s", text)
	}
	e := ann.fails(-32007, "authenticate", signs("not-the-token"))
	if text := show(e["data"]); !strings.Contains(text, "ahpd://users") {
		t.Errorf("the refusal has %s", text)
	}
	ann.call("authenticate", signs(token))
	chat := ann.session(g, sess)
	other.subscribe(sess)
	other.subscribe(chat)
	claim := started("t1", "say hello")
	claim["message"].(object)["_meta"] = object{senderKey: "user:bob", "mine": 1}
	ann.dispatch(chat, claim)
	action, at := other.action(0, chat, "chat/turnStarted")
	if senderIn(action) != "user:ann" || senderIn(action["message"]) != "user:ann" || action["message"].(object)["_meta"].(object)["mine"] != 1.0 {
		t.Errorf("the turn is %v", action)
	}
	other.idle(chat, "t1")
	other.dispatch(chat, started("t2", "say again"))
	action, at = other.action(at, chat, "chat/turnStarted")
	if who, _ := senderIn(action).(string); who != g.front.rootPerson || !strings.HasPrefix(who, "root:") {
		t.Errorf("the turn of one who did not sign in is %v", action)
	}
	other.idle(chat, "t2")
	ann.idle(chat, "t2")
	ann.call("authenticate", signs("")) // signs out
	ann.dispatch(chat, started("t3", "say more"))
	if action, _ = other.action(at, chat, "chat/turnStarted"); senderIn(action) != g.front.rootPerson {
		t.Errorf("the turn of one who signed out is %v", action)
	}
	other.idle(chat, "t3")
	ann.agree(g, chat)
	turns := g.connect("late").subscribe(chat)["state"].(object)["turns"].([]any)
	if senderIn(turns[0].(object)["message"]) != "user:ann" || senderIn(turns[2].(object)["message"]) != g.front.rootPerson {
		t.Errorf("the stored turns are %v", turns)
	}
	if meta := ann.state(sess)["_meta"].(object); meta[ownerKey] != "user:ann" {
		t.Errorf("the session is %v's", meta[ownerKey])
	}
}

func TestAnAutomationSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	g, token := peopled(t)
	p := g.connect("ann")
	p.call("authenticate", signs(token))
	p.subscribe(automationsURI)
	p.dispatch(automationsURI, object{"type": "automation/createRequested", "resource": "ahp-automation:/a", "definition": object{
		"title": "Nightly", "enabled": false, "triggers": []any{}, "message": object{"text": "say hello", "origin": object{"kind": "user"}},
		"session": object{"provider": "demo", "workingDirectories": []string{fileURI(g.dir)}}}})
	set, _ := p.action(0, automationsURI, "automation/set")
	if meta, _ := set["automation"].(object)["_meta"].(object); meta[ownerKey] != "user:ann" {
		t.Errorf("the automation is %v", set)
	}
}

// Where there are no users, there is nobody to name and nothing to sign in to.
func TestAHostWithoutUsersNamesNobody(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	p.fails(-32602, "authenticate", signs("x"))
	chat := p.session(g, sess)
	claim := started("t1", "say hello")
	claim["message"].(object)["_meta"] = object{senderKey: "user:bob"}
	p.dispatch(chat, claim)
	action, _ := p.action(0, chat, "chat/turnStarted")
	if action["_meta"] != nil || action["message"].(object)["_meta"] != nil {
		t.Errorf("the turn is %v", action)
	}
	p.idle(chat, "t1")
	if meta := p.state(sess)["_meta"].(object); meta[ownerKey] != nil {
		t.Errorf("the session is %v's", meta[ownerKey])
	}
}

func TestASignInRunsOut(t *testing.T) {
	t.Parallel()
	g, token := peopled(t)
	p, bystander := g.connect("ann"), g.connect("other")
	with := signs(token)
	with["expiresIn"] = 1
	p.call("authenticate", with)
	f, _ := p.wait(0, "the end of the token", func(f object) bool { return f["method"] == "auth/required" })
	params := f["params"].(object)
	if params["reason"] != "expired" || params["channel"] != rootURI || params["resource"].(object)["resource"] != "ahpd://users" {
		t.Errorf("it is told %v", params)
	}
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say hello"))
	if action, _ := p.action(0, chat, "chat/turnStarted"); senderIn(action) != g.front.rootPerson {
		t.Errorf("the turn is %v", action)
	}
	bystander.call("listSessions", object{"channel": rootURI})
	bystander.mu.Lock()
	defer bystander.mu.Unlock()
	for _, f := range bystander.frames {
		if f["method"] == "auth/required" {
			t.Error("somebody else was told")
		}
	}
}

// A user who has not been granted it says neither what is trusted nor how much is
// kept; who has the host's own token alone says both.
func TestSettingsOfAllNeedAGrant(t *testing.T) {
	t.Parallel()
	g, token := peopled(t)
	ann, root := g.connect("ann"), g.connect("root")
	push := func(p *peer, replace bool, config object) string {
		t.Helper()
		env := p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": config, "replace": replace}))
		reason, _ := env["rejectionReason"].(string)
		return reason
	}
	values := func(p *peer) string { return show(p.configured()) }
	trust := object{"enabled": true, "trustedUris": []any{"file:///a"}}
	if why := push(root, false, object{"replayBytes": 2 << 20, "workspaceTrust": trust, "telemetryLevel": "off"}); why != "" {
		t.Fatalf("the host's own token: %s", why)
	}
	ann.call("authenticate", signs(token))
	for key, needs := range map[string]string{"clientQueueBytes": "config:write", "replayBytes": "config:write", "workspaceTrust": "trust:push"} {
		value := any(3 << 20)
		if key == "workspaceTrust" {
			value = trust
		}
		want := "this host does not take " + key + ": needs the grant " + needs
		if why := push(ann, false, object{key: value}); why != want {
			t.Errorf("%s: %q", key, why)
		}
	}
	// The rest of a push is taken, and what a replacement may not touch stays.
	seq := ann.dispatch(rootURI, object{"type": "root/configChanged", "replace": true,
		"config": object{"http.proxy": "p", "replayBytes": 4 << 20, "clientQueueBytes": "many"}})
	f, _ := ann.wait(0, "the refusal of a part", func(f object) bool {
		env, _ := f["params"].(object)
		o, _ := env["origin"].(object)
		return env["rejectionReason"] != nil && o["clientSeq"] == seq
	})
	env := f["params"].(object)
	if why := env["rejectionReason"]; why != "this host does not take clientQueueBytes: want number, got string; replayBytes: needs the grant config:write" {
		t.Errorf("refused is %v", why)
	}
	if got, want := values(ann), `{"http.proxy":"p","replayBytes":2097152}`; got != want {
		t.Errorf("after a replacement there is %s", got)
	}
	root.until(rootURI, "the replacement", func(s object) bool {
		v := s["config"].(object)["values"].(object)
		return v["http.proxy"] == "p" && v["replayBytes"] == float64(2<<20) && v["telemetryLevel"] == nil && v["workspaceTrust"] != nil
	})
	// Grants count from then on, and as long as there are any.
	people := users.In(g.home)
	if err := people.Grant("ann", users.Grants...); err != nil {
		t.Fatal(err)
	}
	if why := push(ann, false, object{"replayBytes": 3 << 20, "workspaceTrust": trust}); why != "" {
		t.Errorf("with both grants: %s", why)
	}
	if err := people.Grant("ann", users.TrustPush); err != nil {
		t.Fatal(err)
	}
	if why := push(ann, true, object{}); why != "" {
		t.Errorf("a replacement by nothing: %s", why)
	}
	if got, want := values(ann), `{"replayBytes":3145728}`; got != want {
		t.Errorf("with one grant it leaves %s", got)
	}
	if err := people.Remove("ann"); err != nil {
		t.Fatal(err)
	}
	if why := push(ann, false, object{"workspaceTrust": trust}); !strings.Contains(why, "trust:push") {
		t.Errorf("a user who was removed: %q", why)
	}
	ann.call("authenticate", signs(""))
	if why := push(ann, false, object{"workspaceTrust": trust}); why != "" {
		t.Errorf("signed out: %s", why)
	}
}

// lender is an agent that takes tokens, and notes those that it is started with.
type lender struct {
	*demo.Backend

	mu   sync.Mutex
	with []map[string]string
}

const lendersAPI = "https://api.example.invalid"

func (l *lender) Info(ctx context.Context) (agent.Info, error) {
	info, err := l.Backend.Info(ctx)
	info.Resources = []agent.Resource{{ID: lendersAPI, Name: "Example API"}}
	return info, err
}

func (l *lender) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	l.mu.Lock()
	l.with = append(l.with, o.Tokens)
	l.mu.Unlock()
	return l.Backend.Open(ctx, o)
}

func TestATokenReachesTheAgentThatItsClientStarts(t *testing.T) {
	t.Parallel()
	l := new(lender)
	g := newGateway(t, func(o *host.Options) {
		l.Backend = o.Backends[0].Backend.(*demo.Backend)
		o.Backends[0].Backend = l
	})
	p, other := g.connect("one"), g.connect("two")
	resources, _ := json.Marshal(p.state(rootURI)["agents"].([]any)[0].(object)["protectedResources"])
	if !strings.Contains(string(resources), lendersAPI) {
		t.Errorf("the agent names %s", resources)
	}
	with := object{"channel": rootURI, "resource": lendersAPI, "token": "key-one"}
	p.call("authenticate", with)
	turn := func(p *peer, uri string) {
		chat := p.session(g, uri)
		p.dispatch(chat, started("t1", "say hello"))
		p.idle(chat, "t1")
	}
	turn(p, "demo:/first")
	turn(other, "demo:/second") // lent nothing
	with["token"] = ""
	p.call("authenticate", with)
	turn(p, "demo:/third") // took it back
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.with) != 3 || l.with[0][lendersAPI] != "key-one" || len(l.with[1])+len(l.with[2]) != 0 {
		t.Errorf("the agents were started with %v", l.with)
	}
	if text := string(g.book.Lines()); strings.Contains(text, "key-one") {
		t.Errorf("the token is in the log:\n%s", text)
	}
}
