package wiretest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// frame is one thing received: a WebSocket message, an SSE event, an NDJSON
// line or a whole body.
type frame struct {
	data    []byte
	id      string // SSE
	event   string // SSE
	matched bool
}

// client is one named connection. The reader goroutine appends; the script's
// goroutine looks.
type client struct {
	ws     *websocket.Conn // nil for HTTP
	status int             // of the HTTP answer or the refused handshake
	header http.Header
	cancel context.CancelFunc
	judge  Judge // or nil

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something arrives
	frames  []frame
	ended   bool
	endErr  error
	reader  sync.WaitGroup

	next   int // first frame not passed by an ordered expectation
	last   int // the frame matched last; -1 before
	banned []ban
	faults []error // what the judge found
}

// ban is a pattern that must not arrive from a frame on until the next match.
type ban struct {
	pattern
	from int
	line int
}

func newClient() *client { return &client{changed: make(chan struct{}), last: -1} }

func (c *client) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *client) add(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.judge != nil {
		if err := c.judge.Received(f.data); err != nil {
			c.faults = append(c.faults, fmt.Errorf("frame %d is wrong: %w\n%s", len(c.frames)+1, err, cut(string(f.data))))
		}
	}
	c.frames = append(c.frames, f)
	c.signal()
}

func (c *client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.endErr = true, err
	c.signal()
}

// shut ends the connection without ceremony and waits for the reader.
func (c *client) shut() {
	if c.cancel != nil {
		c.cancel()
	}
	if c.ws != nil {
		if tcp, ok := c.ws.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.ws.Close()
	}
	c.reader.Wait()
}

// target is where and how a client connects.
type target struct {
	method    string
	url       string
	header    http.Header
	protocols []string
	body      string
	stalled   bool // do not read until told
	judge     Judge
	refused   int // HTTP status expected in place of an upgrade
}

// option applies one word like header="K: V".
func (t *target) option(word string) error {
	key, value, ok := strings.Cut(word, "=")
	switch {
	case key == "header" && ok:
		k, v, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("header %q has no colon", value)
		}
		t.header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	case key == "auth" && ok:
		t.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(value)))
	case key == "bearer" && ok:
		t.header.Set("Authorization", "Bearer "+value)
	case key == "protocol" && ok:
		t.protocols = append(t.protocols, value)
	case key == "refused" && ok:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("refused=%s: want a status", value)
		}
		t.refused = n
	case word == "stalled":
		t.stalled = true
	default:
		return fmt.Errorf("%q is not an option", word)
	}
	return nil
}

func dialWS(ctx context.Context, t target) (*client, error) {
	d := websocket.Dialer{Subprotocols: t.protocols, NetDialContext: (&net.Dialer{}).DialContext}
	if t.stalled {
		d.NetDialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4096)
			}
			return conn, err
		}
	}
	c := newClient()
	conn, res, err := d.DialContext(ctx, t.url, t.header)
	if res != nil {
		c.status, c.header = res.StatusCode, res.Header
	}
	if t.refused != 0 {
		switch {
		case err == nil:
			_ = conn.Close()
			return nil, fmt.Errorf("the upgrade was not refused")
		case res == nil:
			return nil, fmt.Errorf("no answer: %w", err)
		case res.StatusCode != t.refused:
			return nil, fmt.Errorf("refused with status %d, want %d", res.StatusCode, t.refused)
		}
		body, _ := io.ReadAll(res.Body) // the library keeps the first KiB
		c.frames = []frame{{data: body}}
		c.ended = true
		return c, nil
	}
	if err != nil {
		if res != nil {
			return nil, fmt.Errorf("refused with status %d: %w", res.StatusCode, err)
		}
		return nil, err
	}
	conn.SetReadLimit(maxFrame)
	c.ws, c.judge = conn, t.judge
	if !t.stalled {
		c.read()
	}
	return c, nil
}

// read starts the reader of a WebSocket.
func (c *client) read() {
	c.reader.Go(func() {
		for {
			_, data, err := c.ws.ReadMessage()
			if err != nil {
				c.end(err)
				return
			}
			c.add(frame{data: data})
		}
	})
}

// request sends an HTTP request and reads its answer by content type: an event
// stream and NDJSON frame by frame, anything else as one frame.
func request(t target, wait time.Duration) (*client, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var body io.Reader
	if t.body != "" {
		body = strings.NewReader(t.body)
	}
	r, err := http.NewRequestWithContext(ctx, t.method, t.url, body)
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header = t.header
	if h := t.header.Get("Host"); h != "" {
		r.Host = h
	}
	c := newClient()
	c.cancel = cancel
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: wait}
	res, err := (&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}).Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	c.status, c.header = res.StatusCode, res.Header
	c.reader.Go(func() {
		defer res.Body.Close()
		kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
		switch strings.TrimSpace(kind) {
		case "text/event-stream":
			err = c.readEvents(res.Body)
		case "application/x-ndjson":
			err = c.readLines(res.Body)
		default:
			var data []byte
			data, err = io.ReadAll(io.LimitReader(res.Body, maxFrame))
			c.add(frame{data: data})
		}
		c.end(err)
	})
	return c, nil
}

func scanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxFrame)
	return s
}

func (c *client) readLines(r io.Reader) error {
	s := scanner(r)
	for s.Scan() {
		if len(s.Bytes()) > 0 {
			c.add(frame{data: append([]byte(nil), s.Bytes()...)})
		}
	}
	return s.Err()
}

func (c *client) readEvents(r io.Reader) error {
	s := scanner(r)
	var f frame
	var data []string
	for s.Scan() {
		line := s.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if len(data) > 0 {
				f.data = []byte(strings.Join(data, "\n"))
				c.add(f)
			}
			f, data = frame{id: f.id}, nil
		case name == "data":
			data = append(data, value)
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		}
	}
	return s.Err()
}

var errTimeout = errors.New("nothing more came in time")

// await calls look, with the lock held, each time something arrived, until it
// says done or fails, the connection ends, or the time is over.
func (c *client) await(wait time.Duration, look func() (done bool, err error)) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		done, err := look()
		ended, endErr, changed := c.ended, c.endErr, c.changed
		c.mu.Unlock()
		switch {
		case done || err != nil:
			return err
		case ended && endErr != nil:
			return fmt.Errorf("the connection ended: %w", endErr)
		case ended:
			return fmt.Errorf("the connection ended")
		}
		select {
		case <-changed:
		case <-deadline.C:
			return errTimeout
		}
	}
}
