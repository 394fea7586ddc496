package bae

import (
	"strings"
	"testing"
)

func TestRequestsWithoutAnIDAreNotAnswered(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	want(t, "register", len(c.raw(`{"jsonrpc":"2.0","method":"session.registerDriver","params":{}}`)), 0)
	want(t, "participants", g.do("GET", c.path("/participants"), c.key, nil).json(t)["drivers"], []any{c.id})
	before := len(c.log())
	want(t, "log", types(c.log())[1], "session.driver.register")
	for _, body := range []string{`{"jsonrpc":"2.0","method":"nope"}`, `{"jsonrpc":"1.0","method":"session.unsubscribe"}`,
		`{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","method":"session.sendMessage","params":{}}`} {
		want(t, body, len(c.raw(body)), 0)
	}
	want(t, "log length", len(c.log()), before)
	lines := c.raw(`{"jsonrpc":"2.0","method":"session.sendMessage","params":{"message":{"content":"say hi"}}}`)
	want(t, "notifications alone", types(lines), "[provider.request provider.response server.message.send]")
	want(t, "lines", len(lines), 3)
	want(t, "log of the turn", types(c.log())[before:], "[client.message.send provider.request provider.response server.message.send]")
}

func TestWhatIsNoRequestIsAnsweredWithANullID(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	deep := strings.Repeat("[", 100_000)
	for body, code := range map[string]int{
		`[{"jsonrpc":"2.0","id":1,"method":"session.unsubscribe"}]`: codeRequest,
		`123`: codeRequest, `"x"`: codeRequest, `null`: codeRequest,
		`{`: codeParse, ``: codeParse, "{\"a\":\"\xff\"}": codeParse, `{} {}`: codeParse,
		deep: codeRequest,
		`{"jsonrpc":"2.0","id":null,"method":"nope"}`: codeMethod,
	} {
		lines := c.raw(body)
		if len(lines) != 1 || lines[0]["id"] != nil {
			t.Errorf("%.60s: %v", body, lines)
			continue
		}
		if _, has := lines[0]["id"]; !has {
			t.Errorf("%.60s: no id", body)
		}
		want(t, body[:min(60, len(body))], errorCode(t, lines[0]), code)
	}
}

func TestIDsAreEchoedAsTheyAre(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	for _, id := range []string{`1`, `"a"`, `{"k":[1]}`, `1.50`, `true`} {
		a := g.do("POST", c.path("/rpc"), c.key, `{"jsonrpc":"2.0","id":`+id+`,"method":"session.unsubscribe"}`)
		want(t, id, string(a.body), `{"jsonrpc":"2.0","id":`+id+`,"result":{"unsubscribed":true}}`+"\n")
	}
	for body, code := range map[string]int{
		`{"id":1,"method":"session.unsubscribe"}`:               codeRequest,
		`{"jsonrpc":"2.0","id":1,"method":7}`:                   codeRequest,
		`{"jsonrpc":"2.0","id":1,"Method":"x"}`:                 codeRequest,
		`{"jsonrpc":"2.0","id":1,"method":"session.sendStuff"}`: codeMethod,
	} {
		want(t, body, errorCode(t, c.raw(body)[0]), code)
	}
}

func TestWhichComplaintComesFirst(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(nil).register()
	b := g.join(a.ses, nil)
	want(t, "not registered", b.code("session.sendMessage", obj{}), codeDriver)
	b.register().register()
	n := 0
	for _, e := range a.log() {
		if e["event_type"] == "session.driver.register" && e["client_key_id"] == b.id {
			n++
		}
	}
	want(t, "registrations", n, 1)
	before := len(a.log())
	for _, params := range []any{obj{}, obj{"message": obj{"role": "user"}}, obj{"message": 5}, []int{1}, msg(5), msg(nil), msg(""), msg([]obj{}),
		obj{"message": obj{"role": 1, "content": "x"}}} {
		want(t, string(mustJSON(params)), b.code("session.sendMessage", params), codeParams)
	}
	want(t, "log", len(a.log()), before)
	s := a.begin("session.sendMessage", msg("sleep 60000"))
	defer s.close()
	s.until("provider.request")
	want(t, "while a turn runs", b.code("session.sendMessage", obj{"message": 5}), codeParams)
}

func TestAStrayToolResultIsRefusedAndTheSessionStaysOpen(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	want(t, "stray", c.code("session.sendMessage", msg([]obj{toolResultBlock("tu_1", "x")})), codeState)
	want(t, "log", types(c.log()), "[session.open session.driver.register]")
	want(t, "next", text(c.send("say ok")["message"]), "ok")
}
