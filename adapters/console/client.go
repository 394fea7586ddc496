package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	sseclient "github.com/r3labs/sse/v2"

	"github.com/polyhost/polyhost/core/event"
)

// Client asks a running gateway's console.
type Client struct {
	at   Endpoint
	http http.Client
}

// NewClient is a client of the console at the endpoint.
func NewClient(at Endpoint) *Client {
	// Streams live long, so deadlines are the requests' own.
	return &Client{at: Endpoint{strings.TrimSuffix(at.URL, "/"), at.Token}}
}

// AnswerError is a refusal by the gateway.
type AnswerError struct {
	Code int    // of HTTP
	Text string // the gateway's words
}

func (e *AnswerError) Error() string { return fmt.Sprintf("the gateway says: %s (%d)", e.Text, e.Code) }

// Status asks how the gateway is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.get(ctx, "/api/status", &s)
}

// Probe asks the same once the gateway has asked all its agents again.
func (c *Client) Probe(ctx context.Context) (Status, error) {
	var s Status
	return s, c.get(ctx, "/api/status?probe=1", &s)
}

// Sessions lists sessions, newest first; all adds the closed, archived and
// private ones.
func (c *Client) Sessions(ctx context.Context, all bool) ([]Session, error) {
	var list []Session
	return list, c.get(ctx, "/api/sessions?all="+strconv.FormatBool(all), &list)
}

// Memory has the gateway free what it does not use, and asks what is left.
func (c *Client) Memory(ctx context.Context) (Memory, error) {
	var m Memory
	return m, c.ask(ctx, http.MethodPost, "/api/gc", &m)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.ask(ctx, http.MethodGet, path, into)
}

func (c *Client) ask(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.at.URL+path, nil)
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.at.Token)
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	return nil
}

func refused(resp *http.Response) error {
	e := &AnswerError{Code: resp.StatusCode, Text: http.StatusText(resp.StatusCode)}
	var f failure
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&f) == nil && f.Error != "" {
		e.Text = f.Error
	}
	return e
}

// Tail calls each with the events of a session after the given one, in order;
// raw is the event as it is on the wire. With follow it goes on until ctx ends
// or each returns an error, over restarts of the gateway too; without, it ends
// where the session stands.
func (c *Client) Tail(ctx context.Context, session string, after uint64, follow bool, each func(e *event.Event, raw []byte) error) error {
	pause := retryFirst
	for {
		began, before := time.Now(), after
		err := c.tailOnce(ctx, session, &after, follow, each)
		var answer *AnswerError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &answer), errors.Is(err, errEach), !follow:
			return err
		}
		if after > before || time.Since(began) > settleWithin {
			pause = retryFirst
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, retryMost)
	}
}

// errEach marks an error of the caller's function.
var errEach = errors.New("tail")

func (c *Client) tailOnce(ctx context.Context, session string, after *uint64, follow bool, each func(*event.Event, []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query := url.Values{"after": {strconv.FormatUint(*after, 10)}, "follow": {strconv.FormatBool(follow)}}
	s := sseclient.NewClient(c.at.URL+"/api/sessions/"+url.PathEscape(session)+"/events?"+query.Encode(),
		sseclient.ClientMaxBufferSize(maxEvent))
	s.Headers["Authorization"] = "Bearer " + c.at.Token
	s.ReconnectStrategy = once{}
	var refusal error
	s.ResponseValidator = func(_ *sseclient.Client, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		defer resp.Body.Close()
		refusal = refused(resp)
		return refusal
	}
	err := s.SubscribeRawWithContext(ctx, func(m *sseclient.Event) {
		if !json.Valid(m.Data) || context.Cause(ctx) != nil {
			return // the last piece of a stream that was cut
		}
		e := new(event.Event)
		err := json.Unmarshal(m.Data, e)
		switch {
		case errors.Is(err, event.ErrUnknownKind): // of a newer gateway; the raw form still says it
			err = nil
		case err == nil:
			*after = e.Seq
		}
		if err == nil {
			err = each(e, m.Data)
		}
		if err != nil {
			cancel(fmt.Errorf("%w: %w", errEach, err))
		}
	})
	if cause := context.Cause(ctx); errors.Is(cause, errEach) {
		return cause
	}
	if refusal != nil {
		return refusal
	}
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

// once does not reconnect: the pauses are Tail's.
type once struct{}

func (once) NextBackOff() time.Duration { return -1 }
func (once) Reset()                     {}
