package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseRefusesWithTheRightCodeAndId(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]struct {
		code int
		id   string
	}{
		``:                                    {CodeParseError, ""},
		`{"method":`:                          {CodeParseError, ""},
		"{\"method\":\"\xff\"}":               {CodeParseError, ""},
		`{} {}`:                               {CodeParseError, ""},
		`[]`:                                  {CodeInvalidRequest, ""},
		`[{"jsonrpc":"2.0","method":"x"}]`:    {CodeInvalidRequest, ""},
		`7`:                                   {CodeInvalidRequest, ""},
		`null`:                                {CodeInvalidRequest, ""},
		`{}`:                                  {CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":1}`:            {CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":1,"method":2}`: {CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":"a","method":"x","params":"y"}`:      {CodeInvalidRequest, `"a"`},
		`{"jsonrpc":"2.0","id":[1],"method":"x"}`:                   {CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":true,"method":"x"}`:                  {CodeInvalidRequest, ""},
		`{"jsonrpc":"1.0","id":1,"method":"x"}`:                     {CodeInvalidRequest, "1"},
		`{"id":1,"method":"x"}`:                                     {CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":1,"error":"bad"}`:                    {CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":1,"Method":"x"}`:                     {CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 600) + `"}`: {CodeInvalidRequest, ""},
		strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200):         {CodeInvalidRequest, ""},
		`{"method":"` + strings.Repeat("x", 5000) + `"}`:            {CodeInvalidRequest, ""},
	} {
		m, err := Parse([]byte(data), Limits{MaxBytes: 4000, RequireVersion: true})
		if err == nil || err.Code != want.code || string(m.ID) != want.id {
			t.Errorf("%.60s: id %s, %v; want id %s, %d", data, m.ID, err, want.id, want.code)
		}
	}
}

func TestParseTakes(t *testing.T) {
	t.Parallel()
	for data, kind := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}`:                 "request",
		`{"jsonrpc":"2.0","id":-1.5,"method":"x","params":null}`:                 "request",
		`{"method":"x","id":"é"}`:                                                "request",
		`{"method":1,"method":"x","id":1}`:                                       "request",
		`{"jsonrpc":"2.0","method":"x","params":[]}`:                             "notification",
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:                               "notification",
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                 "response",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}`: "response",
	} {
		m, err := Parse([]byte(data), Limits{})
		got := map[bool]string{m.IsRequest(): "request", m.IsNotification(): "notification", m.IsResponse(): "response"}[true]
		if err != nil || got != kind {
			t.Errorf("%s: %s, %v; want %s", data, got, err, kind)
		}
	}
	m, _ := Parse([]byte(`{"id":1,"error":{"code":-1,"message":"no","data":[1]}}`), Limits{})
	if m.Error.Code != -1 || m.Error.Message != "no" || string(m.Error.Data.(json.RawMessage)) != "[1]" {
		t.Errorf("error member: %+v", m.Error)
	}
}

func TestFramesOnTheWire(t *testing.T) {
	t.Parallel()
	frame := func(f []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(f)
	}
	id := json.RawMessage(`"a"`)
	for _, tc := range []struct{ got, want string }{
		{frame(Result(id, map[string]string{"html": "<a&b>"})), `{"jsonrpc":"2.0","id":"a","result":{"html":"<a&b>"}}`},
		{frame(Result(id, nil)), `{"jsonrpc":"2.0","id":"a","result":null}`},
		{frame(Result(id, json.RawMessage(`{"x":1}`))), `{"jsonrpc":"2.0","id":"a","result":{"x":1}}`},
		{string(ErrorReply(nil, MethodNotFound())), `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found"}}`},
		{string(ErrorReply(id, &Error{1, "m", make(chan int)})), `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}`},
		{frame(Notification("x", nil)), `{"jsonrpc":"2.0","method":"x"}`},
		{frame(Notification(`"`, []int{1})), `{"jsonrpc":"2.0","method":"\"","params":[1]}`},
		{frame(RequestFrame(id, "x", nil)), `{"jsonrpc":"2.0","id":"a","method":"x"}`},
	} {
		if tc.got != tc.want {
			t.Errorf("got  %s\nwant %s", tc.got, tc.want)
		}
	}
	if _, err := Result(id, make(chan int)); err == nil {
		t.Error("a result that cannot be encoded must be an error")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1]}}`, `{"id":1,"error":{"code":1}}`, `[1]`, `{"id":null,"id":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data, Limits{MaxBytes: 1 << 16})
		if reply := ErrorReply(m.ID, Errorf(1, "x")); !json.Valid(reply) {
			t.Fatalf("reply is not JSON: %s", reply)
		}
		if err != nil {
			return
		}
		kinds := 0
		for _, is := range []bool{m.IsRequest(), m.IsNotification(), m.IsResponse()} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Fatalf("%q is %d kinds of message", data, kinds)
		}
	})
}

func TestParamsOfAnyKindOnRequest(t *testing.T) {
	t.Parallel()
	for _, params := range []string{`"text"`, `7`, `true`} {
		doc := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}`)
		if _, e := Parse(doc, Limits{}); e == nil || e.Code != CodeInvalidRequest {
			t.Errorf("%s: %v", params, e)
		}
		if m, e := Parse(doc, Limits{AnyParams: true}); e != nil || string(m.Params) != params {
			t.Errorf("%s, any kind: %s, %v", params, m.Params, e)
		}
	}
}
