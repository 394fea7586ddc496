package ahp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// FuzzMessage sends anything as one message, before and after the handshake.
// The gateway must stay, and must answer the ping behind it.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channel":"demo:/x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"createSession","params":{"channel":"demo:/x","config":{"mode":"plan"}}}`,
		`{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":"demo:/fuzz","clientSeq":1,"action":{"type":"session/titleChanged","title":"x"}}}`,
		`{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":"ahp-chat:/fuzz","clientSeq":1e3,"action":{"type":"chat/turnCancelled","turnId":"t","duration":-1}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"reconnect","params":{"clientId":"c","lastSeenServerSeq":0,"subscriptions":[]}}`,
		`{"jsonrpc":"2.0","id":3,"method":"completions","params":{"kind":"userMessage","channel":"demo:/fuzz","text":"@","offset":1}}`,
		`[]`, `{`, `null`, "\x00",
	} {
		f.Add([]byte(s))
	}
	g := newGateway(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 || strings.Contains(string(data), "crash") {
			return
		}
		g.t = t
		first, greeted, witness := g.dial("first"), g.connect("greeted"), g.connect("witness")
		greeted.session(g, "demo:/fuzz-"+id.New().String())
		for _, p := range []*peer{first, greeted} {
			p.wire.Sent(data)
			_ = p.ws.WriteMessage(websocket.BinaryMessage, data)
		}
		witness.call("listSessions", object{"channel": rootURI})
	})
}

// FuzzReadMessage reads anything as a client's message, and shows it again.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(`{"text":"x","origin":{"kind":"user"}}`))
	f.Add([]byte(`{"text":"x","origin":{"kind":"user"},"attachments":[{"type":"resource","uri":"file:///x","label":"x"}],"model":{"id":"m","config":{"thinkingLevel":"high"}}}`))
	f.Add([]byte(`{"text":"x","origin":{"kind":"user"},"attachments":[{"type":"embeddedResource","data":"eA==","contentType":"image/png","label":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		in, err := readMessage(data)
		if err != nil {
			return
		}
		p := in.prompt(id.New(), event.Actor{Front: front})
		back := message(&event.Message{Text: p.Text, By: p.By, Rich: p.Rich})
		if !json.Valid(back) {
			t.Errorf("shown as %s", back)
		}
	})
}

// FuzzVersion holds the choice to its rule: an offered version, or none.
func FuzzVersion(f *testing.F) {
	f.Add("1.0.0 0.9.0")
	f.Add("0.10.0 x")
	f.Fuzz(func(t *testing.T, offer string) {
		list := strings.Split(offer, " ")
		got, err := negotiate(list)
		if err != nil || got == "" {
			return
		}
		for _, s := range list {
			if s == got {
				return
			}
		}
		t.Errorf("%q was not offered in %q", got, offer)
	})
}
