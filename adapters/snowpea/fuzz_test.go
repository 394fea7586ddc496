package snowpea

import (
	"encoding/json"
	"testing"

	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// Params of any form are refused or decoded, never a panic.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{`{}`, `{"sessionId":"x","text":"y"}`, `{"sessionId":5}`, `{"workdir":null}`, `[1]`, `null`,
		`{"sessionId":"x","attachments":[{"kind":"page","data":"!"}],"whenBusy":"steer"}`,
		`{"tools":[{"name":"a","description":"b","permission":"read","timeoutMs":1.5}]}`, `{"patch":{"approvals":{"timeoutSec":"soon"}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, perr := jsonrpc.Parse([]byte(`{"id":1,"method":"x","params":`+string(data)+`}`), jsonrpc.Limits{AnyParams: true})
		if perr != nil {
			return
		}
		for _, method := range surface.Methods {
			r := &jsonrpc.Request{Params: m.Params}
			if checkParams(method.params, r) != nil {
				continue
			}
			_, _ = decode[createParams](r)
			_, _ = decode[struct {
				Attachments []attachment `json:"attachments"`
			}](r)
			_, _ = decode[struct {
				Tools []hostTool `json:"tools"`
			}](r)
		}
		serialKey(&jsonrpc.Request{Method: "session.prompt", Params: m.Params})
		var d document
		if jsonx.DecodeChecked(m.Params, &d) == nil && d != nil {
			whole := overlay(defaults.Global, patched(document{}, d))
			_ = fitsDefaults(whole, defaults.Global, "")
			if _, err := json.Marshal(hide(whole)); err != nil {
				t.Error(err)
			}
		}
	})
}

// A schedule of answers from a client never panics and never allows by accident.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"decision":"allow"}`, `{"decision":"deny","reason":"x"}`, `{"decision":"Allow"}`, `{"decision":["allow"]}`, `5`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := approvalForTest()
		var said struct {
			Decision any `json:"decision"`
		}
		yes := json.Unmarshal(data, &said) == nil && said.Decision == "allow"
		if got := k.reading(data); (got.Outcome == "allowed") && !yes {
			t.Errorf("%s was taken for a yes", data)
		}
	})
}
