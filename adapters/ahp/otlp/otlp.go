// Package otlp says what happens on the host in OTLP/JSON: the log, a span for
// each turn and each call of a tool, and totals. It knows no channel and no
// client.
//
// Ordering: of one signal, that of what happened. Loss: of the log, when records
// come faster than they are exported, the oldest; nothing is repeated. Blocking:
// export is called from a goroutine that only exports, and for traces from the
// one that follows the session; it must not wait for a client. Cost: none
// before a signal is asked for and after its stop, but for the log's listeners.
//
// Nothing of what people and agents write goes into a span or a metric: names
// of tools and models, states, times and numbers. The log has the same lines as
// the gateway's own.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/logs"
)

// scope names who made the telemetry.
const scope = "polyhost"

// Source makes telemetry of one host. Its totals are of the time since New.
type Source struct {
	host     *host.Host
	book     *logs.Book
	log      *slog.Logger
	resource *resource.Resource
	version  string
	reader   *sdkmetric.ManualReader
}

// Options say of what telemetry is made.
type Options struct {
	Host    *host.Host
	Book    *logs.Book
	Log     *slog.Logger
	Version string
}

// New prepares to make telemetry.
func New(o Options) (*Source, error) {
	s := &Source{host: o.Host, book: o.Book, log: o.Log, version: o.Version, reader: sdkmetric.NewManualReader(),
		resource: resource.NewSchemaless(attribute.String("service.name", scope),
			attribute.String("service.version", o.Version), attribute.Int("process.pid", os.Getpid()))}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader), sdkmetric.WithResource(s.resource)).
		Meter(scope, metric.WithInstrumentationVersion(o.Version))
	if err := s.instrument(meter); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	return s, nil
}

// worker is a goroutine that runs until its stop, which waits for it.
func worker(run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	return func() { cancel(); <-done }
}

// nanos is a time as OTLP has it.
func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}
