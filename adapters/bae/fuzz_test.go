package bae

import (
	"encoding/json"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// FuzzParseRequest: an envelope is taken or refused, never both, and an answer
// to it is one line of JSON.
func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `[]`, `{`, `{"id":null}`, "\xff", `{"jsonrpc":"2.0","method":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rq, bad := parseRequest(body)
		if bad == nil && (rq.method == "" && len(body) < 20 || rq.params == nil) {
			t.Errorf("%q was taken: %+v", body, rq)
		}
		if line := rq.terminal(nil, fail(codeInternal, "x")); line != nil && !json.Valid(line) {
			t.Errorf("answer %q", line)
		}
	})
}

// FuzzContent: whatever a client sends as content, reading and merging it
// neither panics nor makes what is no JSON.
func FuzzContent(f *testing.F) {
	for _, s := range []string{`"x"`, `[]`, `null`, `[{"type":"tool_result","tool_use_id":"a","content":"x"}]`, `[1,{"type":"text"}]`, `{}`} {
		f.Add([]byte(s))
	}
	p := &pause{calls: []*event.Interaction{{Kind: event.ClientCall, Call: "a"}, {Kind: event.Approval, ID: id.New()}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if check(raw) != nil || len(raw) == 0 {
			return
		}
		c := readContent(raw)
		c.prompt()
		if results, err := merge(p, "user", c); err == nil && !json.Valid(mergedContent(results, c.blocks)) {
			t.Errorf("merged %q", raw)
		}
		if shown, _, err := abandon(p, "user", c); err == nil && !json.Valid(shown) {
			t.Errorf("abandoned %q", raw)
		}
		for _, r := range c.results {
			for _, i := range p.calls {
				resolutionOf(i, r, event.Gateway)
			}
		}
	})
}

// FuzzDeclarations: what open takes is what its events can show.
func FuzzDeclarations(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"tools":[{"name":"a"}]}`, `{"subagent_tools":[{"name":"a","image":"i","subagents":[{"harness":"h","command_template":"{model}"}]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := decodeDeclarations(body)
		if err != nil {
			return
		}
		d.rules(profile{Allowed: []string{anyTool}})
		l := d.lists()
		mustJSON(d.payload())
		mustJSON(l.shown())
		if len(l.offered()) > len(l.shown()) {
			t.Errorf("more offered than declared in %q", body)
		}
	})
}

// FuzzCursor: a cursor that is taken is spelled in one way.
func FuzzCursor(f *testing.F) {
	ses := id.New()
	f.Add(position{3, 7, 1}.cursor(ses))
	f.Add("zz")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ok := parseCursor(ses, s); ok && p.cursor(ses) != s {
			t.Errorf("%q is %v, which is %q", s, p, p.cursor(ses))
		}
	})
}
