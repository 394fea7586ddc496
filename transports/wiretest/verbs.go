package wiretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// skip passes the frames that <~ has matched already.
func (c *client) skip() {
	for c.next < len(c.frames) && c.frames[c.next].matched {
		c.next++
	}
}

func expectNext(exact bool) func(*run, step, *client, string) error {
	return func(r *run, _ step, c *client, rest string) error {
		p, err := newPattern(rest, exact)
		if err != nil {
			return err
		}
		return c.await(r.timeout, func() (bool, error) {
			if c.skip(); c.next == len(c.frames) {
				return false, nil
			}
			caps, err := p.match(c.frames[c.next].data)
			if err != nil {
				return false, fmt.Errorf("the next frame differs: %w", err)
			}
			r.capture(caps)
			c.next++
			return true, c.settle(c.next - 1)
		})
	}
}

func expectLater(exact bool) func(*run, step, *client, string) error {
	return func(r *run, _ step, c *client, rest string) error {
		p, err := newPattern(rest, exact)
		if err != nil {
			return err
		}
		_, err = r.findLater(c, p)
		return err
	}
}

// findLater passes frames until one matches and returns its index.
func (r *run) findLater(c *client, p pattern) (int, error) {
	looked, found := c.next, -1
	err := c.await(r.timeout, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			if c.frames[looked].matched {
				continue
			}
			if caps, err := p.match(c.frames[looked].data); err == nil {
				r.capture(caps)
				c.next, found = looked+1, looked
				return true, c.settle(looked)
			}
		}
		return false, nil
	})
	return found, err
}

func expectAnywhere(r *run, _ step, c *client, rest string) error {
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	looked := 0
	return c.await(r.timeout, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			if c.frames[looked].matched {
				continue
			}
			if caps, err := p.match(c.frames[looked].data); err == nil {
				r.capture(caps)
				return true, c.settle(looked)
			}
		}
		return false, nil
	})
}

func forbid(_ *run, st step, c *client, rest string) error {
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	c.banned = append(c.banned, ban{p, c.next, st.line})
	return nil
}

func expectText(r *run, _ step, c *client, rest string) error {
	re, err := regexp.Compile(rest)
	if err != nil {
		return err
	}
	return c.await(r.timeout, func() (bool, error) {
		if c.skip(); c.next == len(c.frames) {
			return false, nil
		}
		if !re.Match(c.frames[c.next].data) {
			return false, errors.New("the next frame differs")
		}
		c.next++
		return true, c.settle(c.next - 1)
	})
}

// expectConcat reads "PATH of PATTERN until PATTERN is TEXT".
func expectConcat(r *run, _ step, c *client, rest string) error {
	form := errors.New("want: PATH of PATTERN until PATTERN is STRING")
	path, rest, ok := strings.Cut(rest, " of ")
	if !ok {
		return form
	}
	values := make([]any, 3)
	for i, word := range []string{"until", "is", ""} {
		v, after, err := decode(rest)
		if err != nil {
			return err
		}
		values[i] = v
		if rest, ok = strings.CutPrefix(after, word); !ok {
			return form
		}
	}
	if rest != "" {
		return form
	}
	from := c.next
	end, err := r.findLater(c, pattern{value: values[1]})
	if err != nil {
		return err
	}
	of := pattern{value: values[0]}
	var whole strings.Builder
	c.mu.Lock()
	for i := from; i < end; i++ {
		if _, err := of.match(c.frames[i].data); err != nil {
			continue
		}
		v, _, _ := decode(string(c.frames[i].data))
		s, ok := lookup(v, strings.TrimSpace(path)).(string)
		if !ok {
			c.mu.Unlock()
			return fmt.Errorf("frame %d has no text at %s", i+1, path)
		}
		c.frames[i].matched = true
		whole.WriteString(s)
	}
	c.mu.Unlock()
	caps := map[string]any{}
	if err := (pattern{}).compare(values[2], whole.String(), "the pieces put together", caps); err != nil {
		return err
	}
	r.capture(caps)
	return nil
}

// expectQuiet reads "DURATION [PATTERN]": nothing (like that) comes.
func expectQuiet(r *run, _ step, c *client, rest string) error {
	word, rest, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(word)
	if err != nil {
		return err
	}
	var p *pattern
	if rest != "" {
		q, err := newPattern(rest, false)
		if err != nil {
			return err
		}
		p = &q
	}
	looked := c.next
	err = c.await(d, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			f := c.frames[looked]
			if f.matched {
				continue
			}
			if p != nil {
				if _, err := p.match(f.data); err != nil {
					continue
				}
			}
			return false, fmt.Errorf("frame %d breaks the quiet", looked+1)
		}
		return false, nil
	})
	if errors.Is(err, errTimeout) {
		return nil
	}
	return err
}

func (c *client) lastFrame() (frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last < 0 {
		return frame{}, errors.New("no frame was matched yet")
	}
	return c.frames[c.last], nil
}

func expectID(r *run, _ step, c *client, rest string) error {
	f, err := c.lastFrame()
	if err != nil {
		return err
	}
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	caps := map[string]any{}
	if err := p.compare(p.value, f.id, "id", caps); err != nil {
		return err
	}
	r.capture(caps)
	return nil
}

func expectEvent(_ *run, _ step, c *client, rest string) error {
	f, err := c.lastFrame()
	if err == nil && f.event != rest {
		err = fmt.Errorf("the event is %q", f.event)
	}
	return err
}

func expectStatus(_ *run, _ step, c *client, rest string) error {
	if strconv.Itoa(c.status) != rest {
		return fmt.Errorf("the status is %d", c.status)
	}
	return nil
}

// expectHeader reads "NAME REGEXP"; a regexp of "-" wants it absent.
func expectHeader(_ *run, _ step, c *client, rest string) error {
	name, form, _ := strings.Cut(rest, " ")
	got := c.header.Values(name)
	if form == "-" {
		if len(got) > 0 {
			return fmt.Errorf("the header is %q", got)
		}
		return nil
	}
	re, err := regexp.Compile(strings.TrimSpace(form))
	if err != nil {
		return err
	}
	if len(got) == 0 || !re.MatchString(strings.Join(got, ", ")) {
		return fmt.Errorf("the header is %q", got)
	}
	return nil
}

// finish waits for the end of the connection and passes what is left.
func (r *run) finish(c *client) error {
	err := c.await(r.timeout, func() (bool, error) { return c.ended, nil })
	if err != nil {
		return fmt.Errorf("the connection does not end: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = len(c.frames)
	return c.settle(c.next)
}

// expectClose reads "CODE [REGEXP]".
func expectClose(r *run, _ step, c *client, rest string) error {
	code, reason, _ := strings.Cut(rest, " ")
	re, err := regexp.Compile(strings.TrimSpace(reason))
	if err != nil {
		return err
	}
	if err := r.finish(c); err != nil {
		return err
	}
	var ce *websocket.CloseError
	if !errors.As(c.endErr, &ce) {
		return fmt.Errorf("no close frame: %v", c.endErr)
	}
	if strconv.Itoa(ce.Code) != code || !re.MatchString(ce.Text) {
		return fmt.Errorf("closed with %d %q", ce.Code, ce.Text)
	}
	return nil
}

func expectEnd(r *run, _ step, c *client, _ string) error { return r.finish(c) }

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

func setFront(r *run, rest string) error {
	if _, ok := r.endpoints[rest]; !ok {
		return fmt.Errorf("there is no front %q", rest)
	}
	r.script.front = rest
	r.setEndpoints(r.endpoints)
	return nil
}

func setTimeout(r *run, rest string) (err error) {
	r.timeout, err = time.ParseDuration(rest)
	return err
}

func setVar(r *run, rest string) error {
	name, value, ok := strings.Cut(rest, " ")
	if !ok {
		return errors.New("want NAME VALUE")
	}
	r.vars[name] = strings.TrimSpace(value)
	return nil
}

// controlGateway reads "stop", "kill", "start" or "restart".
func controlGateway(r *run, rest string) error {
	switch rest {
	case "stop", "kill", "restart":
		if !r.running {
			return errors.New("the gateway is not running")
		}
		r.running = false
		end := r.gateway.Stop
		if rest == "kill" {
			end = r.gateway.Kill
		}
		if err := end(r.place); err != nil {
			return err
		}
		if rest != "restart" {
			return nil
		}
		return r.start()
	case "start":
		if r.running {
			return errors.New("the gateway is running")
		}
		return r.start()
	}
	return fmt.Errorf("want start, stop, restart or kill, not %q", rest)
}

// checkFile reads "PATH missing", "PATH is STRING" or "PATH contains STRING".
// The file may take until the timeout to become so, except to be missing.
func checkFile(r *run, rest string) error {
	path, rest, _ := strings.Cut(rest, " ")
	how, want, _ := strings.Cut(rest, " ")
	full := filepath.Join(r.place.Work, filepath.FromSlash(path))
	if how == "missing" {
		if _, err := os.Stat(full); !errors.Is(err, os.ErrNotExist) {
			return errors.New("the file is there")
		}
		return nil
	}
	var text string
	if err := json.Unmarshal([]byte(want), &text); err != nil {
		return fmt.Errorf("want a JSON string: %w", err)
	}
	for deadline := time.Now().Add(r.timeout); ; time.Sleep(pollEvery) {
		got, err := os.ReadFile(full)
		switch {
		case err == nil && how == "is" && string(got) == text,
			err == nil && how == "contains" && strings.Contains(string(got), text):
			return nil
		case how != "is" && how != "contains":
			return fmt.Errorf("want missing, is or contains, not %q", how)
		case time.Now().After(deadline):
			return fmt.Errorf("the file holds %q (%v)", cut(string(got)), err)
		}
	}
}
