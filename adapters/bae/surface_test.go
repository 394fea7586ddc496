package bae

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"

	"github.com/go-chi/chi/v5"
)

// The tables in the docs are made from the routes and the method table, so that
// neither drifts.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	doctest.Table(t, "../../docs/protocols/bae.md", "surface", surface(t, g.f))
}

func surface(t *testing.T, f *Front) string {
	var b strings.Builder
	for _, l := range []struct {
		title  string
		routes http.Handler
	}{{"client listener", f.clientRoutes()}, {"admin listener", f.adminRoutes()}} {
		var rows []string
		err := chi.Walk(l.routes.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | served |\n", route, method))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(rows)
		fmt.Fprintf(&b, "| %s | | |\n| --- | --- | --- |\n%s\n", l.title, strings.Join(rows, ""))
	}
	b.WriteString("| method of `/rpc` | who | |\n| --- | --- | --- |\n")
	for _, m := range methods {
		who, how := "participants", "served"
		if m.driver {
			who = "drivers"
		}
		if m.stream != nil {
			how += ", as a stream"
		}
		if strings.HasSuffix(m.name, "RemoteSandbox") {
			how = "refuses: no sandbox driver"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, who, how)
	}
	return b.String()
}

// Every event type that the front writes is one that the protocol's clients
// know: some of them fail on others.
func TestNoEventTypeIsInvented(t *testing.T) {
	t.Parallel()
	known := strings.Fields(`client.message.send server.message.send provider.request provider.response tool.call tool.result
		mcp.request mcp.response sandbox.request sandbox.response session.open session.join session.driver.register session.close
		session.error session.sandbox.available session.sandbox.start session.sandbox.running session.sandbox.stop
		session.sandbox.stopped session.sandbox.error session.subagent.start session.subagent.running
		session.subagent.completed session.subagent.failed session.subagent.cancelled`)
	g := start(t, options{})
	c := g.open(obj{"tools": tool("t", toolPermission)}).register()
	u := uses(c.send("think a\nplan a; b\nusage 3 4\nread x\nspawn s say deep\ncall t {}")["message"])
	r := c.send([]obj{toolResultBlock(u[0]["id"].(string), "x")})
	for _, e := range c.log() {
		if !slices.Contains(known, e["event_type"].(string)) {
			t.Errorf("event %v", e)
		}
	}
	for _, b := range r["message"].(obj)["content"].([]any) {
		want(t, "block", b.(obj)["type"], "text")
	}
	response := string(mustJSON(c.log()))
	if !strings.Contains(response, `"input_tokens":3`) || strings.Contains(response, `"reasoning"`) {
		t.Errorf("usage or reasoning: %s", response)
	}
}
