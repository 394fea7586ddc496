//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/core/id"
)

// protocol is what a benchmark must know of a front.
type protocol struct {
	name string
	// watch opens a connection that gets everything a session does from now on.
	watch func(*gateway, id.ID) *stream
	// delta is in every frame that brings a piece of text, and in no other.
	delta string
	// end is in the last frame of a turn that tells of its outcome.
	end string
}

// protocols are those that stream text: BAE tells of whole messages only.
var protocols = []protocol{
	{"snowpea", watchSnowpea, `"kind":"message.delta"`, `"kind":"turn.done"`},
	{"ahp", watchAHP, `"type":"chat/delta"`, `"type":"chat/turnComplete"`},
	{"zidane", watchZidane, `"streaming":true`, `"kind":"run:end"`},
	{"cognitio", watchCognitio, `"type":"message.part.delta"`, `"type":"session.idle"`},
}

// bae is for what does not need deltas.
var bae = protocol{"bae", watchBAE, "\x00", `"server.message.send"`}

// each runs a benchmark for each protocol.
func each(b *testing.B, list []protocol, f func(*testing.B, protocol)) {
	for _, p := range list {
		b.Run("front="+p.name, func(b *testing.B) { f(b, p) })
	}
}

// stream is one client's connection. A frame is valid until the next one.
type stream struct {
	b     testing.TB
	next  func() ([]byte, error)
	send  func(any) error
	close func()
	raw   io.Reader // the bytes as they come, for those who do not call next

	session id.ID // where a benchmark has several

	// For AHP: the client's id, and the serverSeq of its snapshot.
	client string
	seen   uint64
}

func (s *stream) frame() []byte {
	f, err := s.next()
	if err != nil {
		s.b.Errorf("the connection ended: %v", err)
		panic(err)
	}
	return f
}

// until reads frames up to one that holds a text, and returns it.
func (s *stream) until(text string) []byte {
	for want := []byte(text); ; {
		if f := s.frame(); bytes.Contains(f, want) {
			return f
		}
	}
}

// turn reads to the end of a turn and counts the frames with text.
func (s *stream) turn(p protocol) (deltas int) {
	delta, end := []byte(p.delta), []byte(p.end)
	for {
		switch isDelta, isEnd := looksLike(s.frame(), delta, end); {
		case isDelta:
			deltas++
		case isEnd:
			return deltas
		}
	}
}

// looksLike finds what a frame is: that stands before its text or after it.
func looksLike(f, delta, end []byte) (isDelta, isEnd bool) {
	head, tail := f[:min(len(f), headBytes)], f[max(0, len(f)-headBytes):]
	if bytes.Contains(head, delta) || bytes.Contains(tail, delta) {
		return true, false
	}
	return false, bytes.Contains(head, end) || bytes.Contains(tail, end)
}

const headBytes = 384

// ask sends a request over a WebSocket and waits for its answer.
func (s *stream) ask(id int, method string, params any) []byte {
	s.b.Helper()
	if err := s.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		s.b.Fatal(err)
	}
	answer := s.until(fmt.Sprintf(`"id":%d`, id))
	if bytes.Contains(answer, []byte(`"error":`)) {
		s.b.Fatalf("%s: %s", method, answer)
	}
	return answer
}

func dial(b testing.TB, url string, header http.Header) *stream {
	b.Helper()
	d := websocket.Dialer{ReadBufferSize: 64 << 10}
	c, res, err := d.Dial(url, header)
	if err != nil {
		b.Fatalf("dial %s: %v %v", url, err, res)
	}
	return socket(b, c)
}

func socket(b testing.TB, c *websocket.Conn) *stream {
	b.Cleanup(func() { c.Close() })
	buf := make([]byte, 1<<10)
	return &stream{b: b, send: c.WriteJSON, close: func() { c.Close() }, raw: c.NetConn(), next: func() ([]byte, error) {
		_, r, err := c.NextReader()
		for n := 0; ; {
			if err != nil {
				return nil, err
			}
			var k int
			if k, err = r.Read(buf[n:]); err == io.EOF {
				return buf[:n+k], nil
			}
			if n += k; n == len(buf) {
				buf = append(buf, make([]byte, len(buf))...)
			}
		}
	}}
}

func watchZidane(g *gateway, _ id.ID) *stream { return helloZidane(g) }

func helloZidane(g *gateway) *stream {
	at := g.at["zidane"]
	s := dial(g.b, at["url"], http.Header{"Authorization": {"Bearer " + at["token"]}})
	answer := s.ask(1, "ipc.hello", map[string]any{"protocolVersion": 16, "appVersion": "bench", "pid": 1})
	var hello struct {
		Result struct{ SignalEpoch string }
	}
	if err := json.Unmarshal(answer, &hello); err != nil {
		g.b.Fatalf("%s: %v", answer, err)
	}
	g.epoch = hello.Result.SignalEpoch
	return s
}

func watchSnowpea(g *gateway, sid id.ID) *stream {
	s := helloSnowpea(g)
	s.ask(2, "session.resume", map[string]any{"sessionId": sid.String()})
	return s
}

func helloSnowpea(g *gateway) *stream {
	at := g.at["snowpea"]
	s := dial(g.b, at["url"], nil)
	s.ask(1, "system.hello", map[string]any{"token": at["token"], "clientVersion": "1", "protocolVersion": "1.25.0"})
	return s
}

func watchAHP(g *gateway, sid id.ID) *stream {
	s := dial(g.b, g.at["ahp"]["url"], http.Header{"Authorization": {"Bearer " + g.at["ahp"]["token"]}})
	s.client = id.New().String()
	s.ask(1, "initialize", map[string]any{"channel": "ahp-root://", "protocolVersions": []string{"1.0.0"}, "clientId": s.client,
		"clientInfo": map[string]string{"name": "bench"}})
	s.ask(2, "subscribe", map[string]any{"channel": sid.AHP(g.agent)})
	answer := s.ask(3, "subscribe", map[string]any{"channel": chatAHP(g, sid)})
	var snapshot struct {
		Result struct{ Snapshot struct{ FromSeq uint64 } }
	}
	if err := json.Unmarshal(answer, &snapshot); err != nil {
		g.b.Fatalf("%s: %v", answer, err)
	}
	s.seen = snapshot.Result.Snapshot.FromSeq
	return s
}

// chatAHP is AHP's name of the default chat.
func chatAHP(g *gateway, sid id.ID) string {
	return "ahp-chat://default/" + base64.RawURLEncoding.EncodeToString([]byte(sid.AHP(g.agent)))
}

func watchCognitio(g *gateway, _ id.ID) *stream {
	req, err := http.NewRequest(http.MethodGet, g.at["cognitio"]["url"]+"/event", nil)
	if err != nil {
		g.b.Fatal(err)
	}
	g.authorise(req)
	s := body(g.b, req)
	s.until("server.connected")
	return s
}

func watchBAE(g *gateway, sid id.ID) *stream {
	path := g.at["bae"]["url"] + "/api/v1/sessions/" + sid.BAE("ses")
	keys.Lock()
	if g.key == "" {
		g.key = joinBAE(g, path)
	}
	keys.Unlock()
	return body(g.b, bearer(g.b, path+"/rpc", g.key, `{"jsonrpc":"2.0","id":1,"method":"session.subscribe"}`))
}

// keys guards the gateways' keys: clients connect side by side.
var keys sync.Mutex

func joinBAE(g *gateway, path string) string {
	at := g.at["bae"]
	res, err := http.DefaultClient.Do(bearer(g.b, path+"/join", at["client_key"], `{}`))
	if err != nil {
		g.b.Fatal(err)
	}
	defer res.Body.Close()
	var joined struct {
		Key string `json:"session_key"`
	}
	if err := json.NewDecoder(res.Body).Decode(&joined); err != nil || res.StatusCode >= 300 {
		g.b.Fatalf("join: %s %v", res.Status, err)
	}
	return joined.Key
}

func bearer(b testing.TB, url, key, text string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// body is the stream of lines that answers a request, on a connection of its
// own.
func body(b testing.TB, req *http.Request) *stream {
	b.Helper()
	transport := &http.Transport{DisableCompression: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if res.StatusCode >= 300 {
		b.Fatalf("%s: %s", req.URL, res.Status)
	}
	b.Cleanup(func() { res.Body.Close(); transport.CloseIdleConnections() })
	r := bufio.NewReaderSize(res.Body, 64<<10)
	var long []byte
	return &stream{b: b, close: func() { res.Body.Close() }, raw: r, next: func() ([]byte, error) {
		for long = long[:0]; ; {
			piece, err := r.ReadSlice('\n')
			if err == bufio.ErrBufferFull {
				long = append(long, piece...)
				continue
			}
			if err != nil {
				return nil, err
			}
			if len(long) > 0 {
				return append(long, piece...), nil
			}
			if len(piece) > 1 { // not the empty line that ends an event
				return piece, nil
			}
		}
	}}
}
