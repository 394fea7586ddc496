package wiretest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

// clientVerb does one kind of step of a client.
type clientVerb struct {
	do    func(r *run, st step, c *client, rest string) error
	json  bool // variables are put into JSON
	opens bool // makes the client
}

// clientVerbs and plainVerbs are the language; docs/testing.md lists them. They
// are filled by init because the parser looks verbs up in them.
var (
	clientVerbs map[string]*clientVerb
	plainVerbs  map[string]func(r *run, rest string) error
)

func init() {
	clientVerbs = map[string]*clientVerb{
		"ws":      {do: doWS, opens: true},
		"http":    {do: doHTTP, opens: true},
		">":       {do: sendText, json: true},
		">bytes":  {do: sendBytes},
		">binary": {do: sendBinary},
		"<":       {do: expectNext(false), json: true},
		"<=":      {do: expectNext(true), json: true},
		"<<":      {do: expectLater(false), json: true},
		"<<=":     {do: expectLater(true), json: true},
		"<~":      {do: expectAnywhere, json: true},
		"<!":      {do: forbid, json: true},
		"<text":   {do: expectText},
		"concat":  {do: expectConcat, json: true},
		"quiet":   {do: expectQuiet, json: true},
		"id":      {do: expectID, json: true},
		"event":   {do: expectEvent},
		"status":  {do: expectStatus},
		"header":  {do: expectHeader},
		"closes":  {do: expectClose},
		"ends":    {do: expectEnd},
		"close":   {do: sayClose},
		"cut":     {do: cutSocket},
		"resume":  {do: resumeReading},
	}
	plainVerbs = map[string]func(r *run, rest string) error{
		"front":   setFront,
		"timeout": setTimeout,
		"set":     setVar,
		"gateway": controlGateway,
		"file":    checkFile,
	}
}

// open reads "TARGET options..." and the body on continuation lines.
func (r *run) open(st step, rest, scheme string) (target, error) {
	t := target{header: http.Header{}, method: http.MethodGet}
	if r.clients[st.client] != nil {
		r.shut(st.client)
	}
	head, body, _ := strings.Cut(rest, "\n")
	ws, err := fields(head)
	if err != nil {
		return t, err
	}
	if scheme == "http" {
		if len(ws) < 2 {
			return t, errors.New("want METHOD TARGET")
		}
		t.method, ws = ws[0], ws[1:]
		t.body = body
	} else if body != "" {
		more, err := fields(body)
		if err != nil {
			return t, err
		}
		ws = append(ws, more...)
	}
	where := ""
	if len(ws) > 0 && !isOption(ws[0]) {
		where, ws = ws[0], ws[1:]
	}
	if t.url, err = r.resolve(where, scheme); err != nil {
		return t, err
	}
	for _, w := range ws {
		if err := t.option(w); err != nil {
			return t, err
		}
	}
	return t, nil
}

var optionForm = regexp.MustCompile(`^(stalled$|[a-z]+=)`)

func isOption(w string) bool { return optionForm.MatchString(w) }

func doWS(r *run, st step, _ *client, rest string) error {
	t, err := r.open(st, rest, "ws")
	if err != nil {
		return err
	}
	if j, ok := r.gateway.(Judging); ok {
		t.judge = j.Judge(r.frontAt(t.url))
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	c, err := dialWS(ctx, t)
	if err != nil {
		return err
	}
	r.clients[st.client] = c
	return nil
}

func doHTTP(r *run, st step, _ *client, rest string) error {
	t, err := r.open(st, rest, "http")
	if err != nil {
		return err
	}
	c, err := request(t, r.timeout)
	if err != nil {
		return err
	}
	r.clients[st.client] = c
	return nil
}

func send(c *client, kind int, data []byte) error {
	if c.ws == nil {
		return errors.New("not a WebSocket")
	}
	if c.judge != nil {
		c.judge.Sent(data)
	}
	err := c.ws.WriteMessage(kind, data)
	if errors.Is(err, websocket.ErrCloseSent) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil // the peer closed before it had all of it: the next step says what is expected
	}
	return err
}

func sendText(_ *run, _ step, c *client, rest string) error {
	return send(c, websocket.TextMessage, []byte(rest))
}

// sendBytes sends a text message whose bytes a Go string literal gives.
func sendBytes(_ *run, _ step, c *client, rest string) error {
	s, err := strconv.Unquote(rest)
	if err != nil {
		return fmt.Errorf("want a quoted string: %w", err)
	}
	return send(c, websocket.TextMessage, []byte(s))
}

func sendBinary(_ *run, _ step, c *client, rest string) error {
	return send(c, websocket.BinaryMessage, []byte(rest))
}

// settle marks frame i matched, after the bans were checked up to it; the
// caller holds the lock.
func (c *client) settle(i int) error {
	for _, b := range c.banned {
		for j := b.from; j < i; j++ {
			if _, err := b.match(c.frames[j].data); err == nil && !c.frames[j].matched {
				return fmt.Errorf("frame %d, forbidden in line %d, came first: %s", j+1, b.line, cut(string(c.frames[j].data)))
			}
		}
	}
	c.banned = nil
	if i < len(c.frames) {
		c.frames[i].matched = true
		c.last = i
	}
	return nil
}

func sayClose(r *run, _ step, c *client, rest string) error {
	if c.ws == nil {
		return errors.New("not a WebSocket")
	}
	code := websocket.CloseNormalClosure
	if rest != "" {
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		code = n
	}
	return c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(r.timeout))
}

func cutSocket(r *run, st step, c *client, _ string) error {
	c.shut()
	delete(r.clients, st.client)
	return nil
}

func resumeReading(_ *run, _ step, c *client, _ string) error {
	if c.ws == nil {
		return errors.New("not a WebSocket")
	}
	c.read()
	return nil
}
