package ahp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/adapters/ahp/otlp"
)

const (
	otlpScheme  = "ahp-otlp:"
	otlpLogs    = "ahp-otlp://logs/"
	otlpTraces  = "ahp-otlp://traces"
	otlpMetrics = "ahp-otlp://metrics"
)

// telemetry serves the channels of the host's log, traces and metrics. They
// have no state: what nobody heard is gone. A signal is made while somebody
// watches one of its channels, and a little longer.
type telemetry struct {
	front  *Front
	source *otlp.Source
	// channels by URI, levels those of the log. They never change.
	channels map[string]*channel
	levels   map[otlp.Severity]*channel

	mu      sync.Mutex
	closed  bool
	running map[string]*signal // by the method that tells of it
}

// signal is one kind of telemetry while it is made.
type signal struct {
	stop  func()
	asked time.Time // when it was last subscribed
	check *time.Timer
}

// telemetryOffer is what initialize says of it.
type telemetryOffer struct {
	Logs    string `json:"logs"`
	Traces  string `json:"traces"`
	Metrics string `json:"metrics"`
}

var telemetryOffered = telemetryOffer{otlpLogs + "{level}", otlpTraces, otlpMetrics}

func newTelemetry(f *Front, source *otlp.Source) *telemetry {
	t := &telemetry{front: f, source: source, running: map[string]*signal{}, levels: map[otlp.Severity]*channel{},
		channels: map[string]*channel{otlpTraces: f.journal.open(otlpTraces), otlpMetrics: f.journal.open(otlpMetrics)}}
	for _, name := range otlp.Levels() {
		ch := f.journal.open(otlpLogs + name)
		least, _ := otlp.Level(name)
		t.channels[ch.uri], t.levels[least] = ch, ch
	}
	return t
}

func (t *telemetry) owns(uri string) bool { return strings.HasPrefix(uri, otlpScheme) }

// take has no state to give.
func (t *telemetry) take(_ context.Context, uri string) (taken, error) {
	h, err := t.opened(uri)
	if err != nil {
		return taken{}, err
	}
	tk := taken{ch: h.ch, held: h}
	tk.Resource = uri
	_, tk.pos = t.front.journal.promise(h.ch)
	return tk, nil
}

// opened begins to make what the channel tells of: somebody is about to listen.
func (t *telemetry) opened(uri string) (held, error) {
	ch := t.channels[uri]
	if ch == nil {
		return held{}, notFound(uri)
	}
	return held{ch: ch}, t.begin(t.method(uri))
}

func (t *telemetry) method(uri string) string {
	switch uri {
	case otlpTraces:
		return "otlp/exportTraces"
	case otlpMetrics:
		return "otlp/exportMetrics"
	}
	return "otlp/exportLogs"
}

func (t *telemetry) dispatch(_ context.Context, _ *action, typ string) error {
	return refusal("this host does not take " + clip(typ) + " on a channel of telemetry")
}

// begin makes a signal, unless it is made.
func (t *telemetry) begin(method string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errStopping
	}
	if s := t.running[method]; s != nil {
		s.asked = time.Now()
		return nil
	}
	s := &signal{asked: time.Now()}
	switch method {
	case "otlp/exportLogs":
		s.stop = t.source.Logs(t.tellLogs)
	case "otlp/exportTraces":
		stop, err := t.source.Traces(func(payload []byte) { t.tell(method, t.channels[otlpTraces], payload) })
		if err != nil {
			return err
		}
		s.stop = stop
	default:
		s.stop = t.source.Metrics(func(payload []byte) { t.tell(method, t.channels[otlpMetrics], payload) })
	}
	s.check = time.AfterFunc(telemetryUnwatched, func() { t.unwatched(method) })
	t.running[method] = s
	return nil
}

// released does nothing at once: another one may be subscribing.
func (t *telemetry) released(string) {}

// unwatched ends a signal that nobody hears.
func (t *telemetry) unwatched(method string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.running[method]
	if s == nil {
		return
	}
	for uri, ch := range t.channels {
		if t.method(uri) == method && t.front.journal.watched(ch) || time.Since(s.asked) < telemetryUnwatched/2 {
			s.check.Reset(telemetryUnwatched)
			return
		}
	}
	delete(t.running, method)
	s.stop()
}

// close ends all signals for good.
func (t *telemetry) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, s := range t.running {
		s.check.Stop()
		s.stop()
	}
	clear(t.running)
}

// tellLogs gives each channel of the log what is bad enough for it.
func (t *telemetry) tellLogs(r *otlp.Records) {
	for least, ch := range t.levels {
		if !t.front.journal.watched(ch) {
			continue
		}
		// It does not log what goes wrong: that would be told here, too.
		if payload, err := r.Payload(least); err == nil && payload != nil {
			t.tell("otlp/exportLogs", ch, payload)
		}
	}
}

func (t *telemetry) tell(method string, ch *channel, payload []byte) {
	t.front.journal.tell(ch, notification(method, struct {
		Channel string          `json:"channel"`
		Payload json.RawMessage `json:"payload"`
	}{ch.uri, payload}))
}
