package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/toolserver"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var s *toolserver.Server
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	defer l.Close()
	s = toolserver.New(strings.TrimPrefix(l.URL, "http://"), "test", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	d, err := s.Open(echo)
	if err != nil {
		t.Fatal(err)
	}
	at := d.Server()
	d.Offer([]event.ClientTool{{Name: "broken"}, {Name: "odd", Schema: []byte(`{"type":"string"}`)}})
	c := connect(t, at, nil)
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "broken"}); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	d.Close()
	l.Close() // whoever logs has ended
	secret := strings.TrimPrefix(at.Headers["Authorization"], "Bearer ")
	if text := log.String(); secret == "" || !strings.Contains(text, "broken") || strings.Contains(text, secret) || strings.Contains(text, at.URL) {
		t.Errorf("logged: %s", text)
	}
}

// serve runs a tool server on a loopback port.
func serve(t *testing.T) *toolserver.Server {
	t.Helper()
	var s *toolserver.Server
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	s = toolserver.New(strings.TrimPrefix(l.URL, "http://"), "test", slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(l.Close)
	return s
}

type bearing map[string]string

func (h bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h {
		r.Header.Set(k, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, at agent.MCPServer, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: at.URL, HTTPClient: &http.Client{Transport: bearing(at.Headers)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func names(t *testing.T, c *mcp.ClientSession) string {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, tool := range list.Tools {
		out = append(out, tool.Name)
	}
	return strings.Join(out, " ")
}

func echo(_ context.Context, call, name string, input json.RawMessage) (host.ToolOutput, error) {
	if name == "broken" {
		return host.ToolOutput{}, errors.New("a secret path")
	}
	return host.ToolOutput{Text: call + name + string(input), Failed: name == "fails"}, nil
}

func TestToolsAreListedAndCalled(t *testing.T) {
	t.Parallel()
	d, err := serve(t).Open(echo)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Offer([]event.ClientTool{{Name: "look", Schema: []byte(`{"type":"object","properties":{"word":{"type":"string"}}}`)},
		{Name: "fails", Schema: []byte(`[1]`)}, {Name: "broken"}, {Name: "odd", Schema: []byte(`{"type":"string"}`)}})
	changed := make(chan struct{}, 8)
	c := connect(t, d.Server(), &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	if got := names(t, c); got != "broken fails look" {
		t.Errorf("listed: %s", got)
	}
	for name, want := range map[string]string{"look": `look{"word":"sea"}`, "fails": `fails{"word":"sea"}`, "broken": "the tool cannot be called now"} {
		got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(`{"word":"sea"}`)})
		if err != nil || got.Content[0].(*mcp.TextContent).Text != want || got.IsError != (name != "look") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{"claudecode/toolUseId": "toolu_1 "}, Name: "look", Arguments: json.RawMessage(`{}`)})
	if err != nil || got.Content[0].(*mcp.TextContent).Text != `toolu_1 look{}` {
		t.Errorf("a call with an id of the agent's: %+v, %v", got, err)
	}
	d.Offer([]event.ClientTool{{Name: "look"}})
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("nobody said that the list has changed")
	}
	if got := names(t, c); got != "look" {
		t.Errorf("listed then: %s", got)
	}
}

func TestOnlyTheConversationsOwnSecretOpensItsDoor(t *testing.T) {
	t.Parallel()
	s := serve(t)
	a, _ := s.Open(echo)
	b, _ := s.Open(echo)
	defer b.Close()
	post := func(url string, change func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", a.Server().Headers["Authorization"])
		change(r)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	url := a.Server().URL
	for name, c := range map[string]struct {
		url    string
		change func(*http.Request)
		want   int
	}{
		"its own":          {url, func(*http.Request) {}, 200},
		"no secret":        {url, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"an empty secret":  {url, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		"another's secret": {url, func(r *http.Request) { r.Header.Set("Authorization", b.Server().Headers["Authorization"]) }, 401},
		"no such door":     {url + "x", func(*http.Request) {}, 401},
		"another host":     {url, func(r *http.Request) { r.Host = "evil.example" }, 403},
		"a page's origin":  {url, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"a huge request": {url, func(r *http.Request) {
			r.Body, r.ContentLength = http.NoBody, 0
			*r = *r.WithContext(t.Context())
			huge, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(strings.Repeat("x", 9<<20)))
			r.Body, r.ContentLength = huge.Body, huge.ContentLength
		}, 413},
	} {
		if got := post(c.url, c.change); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	a.Close()
	if got := post(url, func(*http.Request) {}); got != 401 {
		t.Errorf("after the end: %d", got)
	}
}

// world is a host whose demo agent calls clients' tools over MCP.
func world(t *testing.T, own ...host.OwnTools) (*host.Host, *host.Session, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	b := &demo.Backend{MCP: true}
	o := host.Options{Store: memstore.New(), DefaultDir: t.TempDir(), Tools: serve(t), Grace: 50 * time.Millisecond,
		Backends: []host.NamedBackend{{Name: "demo", Backend: b}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if len(own) > 0 {
		o.Own = own[0]
	}
	h, err := host.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = b.Close()
	})
	if err := h.AgentsReady(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := h.CreateSession(ctx, host.CreateSession{By: harness})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTools(ctx, &event.ClientToolsSet{Client: harness, Tools: []event.ClientTool{{Name: "lookup"}}}); err != nil {
		t.Fatal(err)
	}
	return h, s, ctx
}

var harness = event.Actor{Front: "test", Client: "harness"}

// asked prompts and waits for the call to reach the client.
func asked(t *testing.T, ctx context.Context, s *host.Session, prompt string) (host.Prompted, event.Interaction) {
	t.Helper()
	p, err := s.Prompt(ctx, host.Prompt{Text: prompt, By: harness})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe(0)
	defer sub.Close()
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if o, ok := e.Body.(*event.InteractionOpened); ok && o.Interaction.Turn == p.Turn {
				return p, o.Interaction
			}
		}
	}
}

func TestAnAgentCallsAClientsToolOverMCP(t *testing.T) {
	t.Parallel()
	_, s, ctx := world(t)
	p, i := asked(t, ctx, s, `call lookup {"word":"sea"}`)
	if i.Kind != event.ClientCall || i.Tool != "lookup" || string(i.Input) != `{"word":"sea"}` || i.Client != harness {
		t.Errorf("asked: %+v", i)
	}
	if err := s.Resolve(ctx, i.ID, event.Resolution{Outcome: event.Completed, By: harness, Output: "salt water"}); err != nil {
		t.Fatal(err)
	}
	turn, err := s.WaitTurn(ctx, s.State().Default, p.Turn)
	if err != nil {
		t.Fatal(err)
	}
	if len(turn.Parts) != 2 || turn.Parts[0].ID != i.Part || turn.Parts[0].Tool.Status != event.CallDone ||
		turn.Parts[0].Tool.Output.String() != "salt water" || turn.Text() != "salt water" {
		t.Errorf("%d parts, first %+v", len(turn.Parts), turn.Parts[0].Tool)
	}
}

func TestACallOverMCPEndsWithItsTurnAndItsClient(t *testing.T) {
	t.Parallel()
	_, s, ctx := world(t)
	p, i := asked(t, ctx, s, `call lookup {}`)
	if stopped, err := s.Interrupt(ctx, host.Interrupt{By: harness}); err != nil || !stopped {
		t.Fatal(stopped, err)
	}
	turn, err := s.WaitTurn(ctx, s.State().Default, p.Turn)
	if err != nil || turn.Parts[0].Tool.Status != event.CallCancelled || len(s.State().Open) != 0 {
		t.Errorf("%v, %+v", err, turn.Parts[0].Tool)
	}
	if err := s.Resolve(ctx, i.ID, event.Resolution{Outcome: event.Completed, By: harness}); !errors.Is(err, host.ErrResolved) {
		t.Errorf("answered after the end: %v", err)
	}
	p, _ = asked(t, ctx, s, `call lookup {}`)
	if err := s.ClientGone(ctx, harness); err != nil {
		t.Fatal(err)
	}
	turn, err = s.WaitTurn(ctx, s.State().Default, p.Turn)
	if err != nil || turn.Status != event.TurnComplete || turn.Parts[0].Tool.Status != event.CallFailed || !strings.Contains(turn.Parts[0].Tool.Error, "has left") {
		t.Errorf("%v, %+v", err, turn.Parts[0].Tool)
	}
	// Nobody offers it any more.
	q, err := s.Prompt(ctx, host.Prompt{Text: "call lookup {}", By: harness})
	if err != nil {
		t.Fatal(err)
	}
	turn, err = s.WaitTurn(ctx, s.State().Default, q.Turn)
	if err != nil || turn.Parts[0].Tool.Status != event.CallFailed {
		t.Errorf("%v, %+v", err, turn.Parts[0].Tool)
	}
}

func TestACallThatTheAgentDoesNotShowIsShown(t *testing.T) {
	t.Parallel()
	_, s, ctx := world(t)
	p, err := s.Prompt(ctx, host.Prompt{Text: "sleep 60000", By: harness})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan host.ToolOutput, 1)
	go func() {
		out, err := s.CallTool(ctx, s.State().Default, "", "lookup", []byte(`{"a":1}`))
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	for len(s.State().Open) == 0 && ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
	}
	if err := s.Resolve(ctx, s.State().Open[0].ID, event.Resolution{Outcome: event.Completed, By: harness, Output: "yes"}); err != nil {
		t.Fatal(err)
	}
	if out := <-done; out.Text != "yes" || out.Failed {
		t.Errorf("%+v", out)
	}
	if _, err := s.Interrupt(ctx, host.Interrupt{By: harness}); err != nil {
		t.Fatal(err)
	}
	turn, err := s.WaitTurn(ctx, s.State().Default, p.Turn)
	if err != nil || len(turn.Parts) != 1 || turn.Parts[0].Tool.Status != event.CallDone || turn.Parts[0].Tool.Server != host.ToolServerName {
		t.Errorf("%v, %+v", err, turn)
	}
	if _, err := s.CallTool(ctx, s.State().Default, "", "lookup", nil); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("without a turn: %v", err)
	}
}

func TestTheGatewaysOwnToolsAreCalledOverMCP(t *testing.T) {
	t.Parallel()
	h, s, ctx := world(t, hosttools.New(slog.New(slog.DiscardHandler)))
	p, err := s.Prompt(ctx, host.Prompt{Text: "call get_current_session {}", By: harness})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.WaitTurn(ctx, s.State().Default, p.Turn)
	if err != nil {
		t.Fatal(err)
	}
	call := turn.Parts[0].Tool
	if call.Status != event.CallDone || !strings.Contains(turn.Text(), s.ID().String()) || call.Server != host.ToolServerName || call.Client != (event.Actor{}) ||
		call.Title != "Get Current Session" || call.Tag != event.TagRead {
		t.Errorf("%+v, said %q", call, turn.Text())
	}
	create := `{"relationship":"currentSession","prompt":"say x","title":"x"}`
	for _, allow := range []bool{false, true} {
		p, i := asked(t, ctx, s, "call create_session "+create)
		if i.Kind != event.Approval || string(i.Input) != create || i.Part.IsNil() {
			t.Errorf("asked: %+v", i)
		}
		res := event.Resolution{Outcome: event.Denied, By: harness}
		if allow {
			res.Outcome = event.Allowed
		}
		if err := s.Resolve(ctx, i.ID, res); err != nil {
			t.Fatal(err)
		}
		turn, err := s.WaitTurn(ctx, s.State().Default, p.Turn)
		if err != nil || (turn.Parts[0].Tool.Status == event.CallDone) != allow || (len(s.State().Chats) == 2) != allow {
			t.Errorf("allowed %v: %v, %+v, %d chats", allow, err, turn.Parts[0].Tool, len(s.State().Chats))
		}
	}
	// A call that is still asked about ends with its turn.
	q, _ := asked(t, ctx, s, `call delete_session {"session":"demo:/x"}`)
	if _, err := s.Interrupt(ctx, host.Interrupt{By: harness}); err != nil {
		t.Fatal(err)
	}
	if turn, err = s.WaitTurn(ctx, s.State().Default, q.Turn); err != nil || turn.Parts[0].Tool.Status != event.CallCancelled || len(s.State().Open) != 0 {
		t.Errorf("%v, %+v", err, turn.Parts[0].Tool)
	}
	// What the agent does not show is shown, whatever becomes of it.
	if s, err = h.CreateSession(ctx, host.CreateSession{By: harness}); err != nil {
		t.Fatal(err)
	}
	q, err = s.Prompt(ctx, host.Prompt{Text: "sleep 60000", By: harness})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"list_sessions": false, "get_session_context": true} {
		out, err := s.CallTool(ctx, s.State().Default, "", name, nil)
		if err != nil || out.Failed != want {
			t.Errorf("%s: %v, %+v", name, err, out)
		}
	}
	if _, err := s.Interrupt(ctx, host.Interrupt{By: harness}); err != nil {
		t.Fatal(err)
	}
	turn, err = s.WaitTurn(ctx, s.State().Default, q.Turn)
	if err != nil || len(turn.Parts) != 2 || !turn.Parts[0].Tool.Status.Ended() || turn.Parts[0].Tool.Status == event.CallCancelled {
		t.Errorf("%v, %+v", err, turn)
	}
	if !h.OfferOwnTools(false) {
		t.Error("they were not offered")
	}
}
