package strict

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every name that the table uses is in it.
func TestTheTableIsWhole(t *testing.T) {
	t.Parallel()
	var walk func(in string, s *shape)
	walk = func(in string, s *shape) {
		if s == nil {
			return
		}
		if s.kind == "name" && shapes[s.name] == nil {
			t.Errorf("%s: there is no %s", in, s.name)
		}
		walk(in, s.of)
		for _, o := range s.options {
			walk(in, o)
		}
		for _, f := range s.fields {
			walk(in, f)
		}
	}
	for name, s := range shapes {
		walk(name, s)
	}
	for _, name := range notifications {
		if shapes[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	for _, name := range states {
		if shapes[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

// What is wrong with a frame is found, and said with its place.
func TestFramesAreJudged(t *testing.T) {
	t.Parallel()
	const action = `{"jsonrpc":"2.0","method":"action","params":{"channel":"ahp-chat:/c","serverSeq":3,"action":`
	for _, c := range []struct{ sent, frame, want string }{
		{frame: action + `{"type":"chat/turnComplete","turnId":"t","duration":1}}}`},
		{frame: action + `{"type":"chat/turnComplete","turnId":"t"}}}`, want: "duration is missing"},
		{frame: action + `{"type":"chat/turnComplete","turnId":"t","duration":null}}}`, want: "duration: null is not a number"},
		{frame: action + `{"type":"chat/turnComplete","turnId":"t","duration":1,"cost":2}}}`, want: "cost is not declared"},
		{frame: action + `{"type":"chat/none"}}}`, want: "none of the variants"},
		{frame: action + `{"type":"session/ready"}}}`, want: "is a chat channel"},
		{frame: action + `{"type":"chat/none"},"rejectionReason":"no","origin":{"clientId":"c","clientSeq":1}}}`},
		{frame: action + `{"type":"chat/toolCallConfirmed","turnId":"t","toolCallId":"k","approved":false,"confirmed":"setting"}}}`, want: "confirmed is not declared; StateAction: reason is missing"},
		{frame: action + `{"type":"chat/toolCallStart","turnId":"t","toolCallId":"k","toolName":"x","displayName":"X","_meta":{"mine":1}}}}`, want: "_meta.mine"},
		{frame: action + `{"type":"chat/toolCallStart","turnId":"t","toolCallId":"k","toolName":"x","displayName":"X","_meta":{"polyhost.mine":null}}}}`},
		{frame: action + `{"type":"chat/responsePart","turnId":"t","part":{"kind":"toolCall","toolCall":{"status":"running"}}}}}`, want: "part.toolCall: confirmed is missing"},
		{sent: `{"id":1,"method":"ping"}`, frame: `{"jsonrpc":"2.0","id":1,"result":null}`},
		{sent: `{"id":1,"method":"ping"}`, frame: `{"jsonrpc":"2.0","id":1,"result":{}}`, want: "is not null"},
		{sent: `{"id":1,"method":"ping"}`, frame: `{"jsonrpc":"2.0","id":1}`, want: "either a result or an error"},
		{sent: `{"id":1,"method":"subscribe"}`, frame: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{
			sent:  `{"id":1,"method":"subscribe"}`,
			frame: `{"jsonrpc":"2.0","id":1,"result":{"snapshot":{"resource":"ahp-root://","fromSeq":1,"state":{"agents":[],"terminals":null}}}}`,
			want:  "terminals: null is not a list",
		},
		{sent: `{"id":1,"method":"reconnect"}`, frame: `{"jsonrpc":"2.0","id":1,"result":{"type":"replay","actions":[{}],"missing":[]}}`, want: "action is missing"},
		{frame: `{"jsonrpc":"2.0","id":4,"result":{}}`, want: "nothing was asked"},
		{frame: `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"no"}}`, want: "not an object"},
		{frame: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":null}}`, want: "data is null"},
		{frame: `{"jsonrpc":"2.0","id":1,"method":"resourceRead","params":{"channel":"ahp-root://","uri":"x:/y"}}`},
		{frame: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"channel":"ahp-root://"}}`, want: "does not ask"},
		{frame: `{"jsonrpc":"2.0","method":"root/more","params":{}}`, want: "does not say"},
		{frame: `{"jsonrpc":"2.0","method":"root/sessionSummaryChanged","params":{"channel":"ahp-root://","session":"ahp-session:/s","changes":{"activity":null,"status":40}}}`},
	} {
		var l Log
		l.Sent([]byte(c.sent))
		err := l.Received([]byte(c.frame))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %q", c.frame, err, c.want)
		}
	}
}

func FuzzReceived(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"action","params":{"channel":"ahp-root://","serverSeq":1,"action":{"type":"root/agentsChanged","agents":[]}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"snapshot":{"resource":"ahp-chat:/","state":{}}}}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var l Log
		l.Sent([]byte(`{"id":1,"method":"subscribe"}`))
		if l.Received(frame) == nil && !json.Valid(frame) {
			t.Errorf("%q was taken", frame)
		}
	})
}
