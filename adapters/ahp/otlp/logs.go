package otlp

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
)

// Severity is how bad a record at least is.
type Severity = log.Severity

var levels = map[string]Severity{"trace": log.SeverityTrace1, "debug": log.SeverityDebug1, "info": log.SeverityInfo1,
	"warn": log.SeverityWarn1, "error": log.SeverityError1, "fatal": log.SeverityFatal1}

// Level is the severity of a name: trace, debug, info, warn, error or fatal.
func Level(name string) (Severity, bool) {
	s, ok := levels[name]
	return s, ok
}

// Levels are the names, sorted.
func Levels() []string { return slices.Sorted(maps.Keys(levels)) }

// Records are some of the log.
type Records struct {
	source  *Source
	records []sdklog.Record
}

// Logs exports what is logged until stop.
func (s *Source) Logs(export func(*Records)) (stop func()) {
	batches := sdklog.NewBatchProcessor(logExporter{s, export}, sdklog.WithMaxQueueSize(logQueue),
		sdklog.WithExportMaxBatchSize(logBatch), sdklog.WithExportInterval(logEvery))
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(batches), sdklog.WithResource(s.resource),
		sdklog.WithAttributeCountLimit(maxAttributes), sdklog.WithAttributeValueLengthLimit(maxValue))
	logger := provider.Logger(scope, log.WithInstrumentationVersion(s.version))
	unlisten := s.book.Listen(func(r slog.Record) {
		var out log.Record
		out.SetTimestamp(r.Time)
		out.SetObservedTimestamp(r.Time)
		// The steps between slog's levels are those between OTLP's; zero is info in
		// one and nothing in the other.
		out.SetSeverity(Severity(max(1, int(r.Level)+int(log.SeverityInfo1))))
		out.SetSeverityText(r.Level.String())
		out.SetBody(attribute.StringValue(cut(r.Message)))
		r.Attrs(func(a slog.Attr) bool {
			out.AddAttributes(attribute.KeyValue{Key: attribute.Key(a.Key), Value: slogValue(a.Value)})
			return true
		})
		logger.Emit(context.Background(), out)
	})
	return func() {
		unlisten()
		_ = provider.Shutdown(context.Background()) // the exporter fails never and waits for nobody
	}
}

func slogValue(v slog.Value) attribute.Value {
	switch v.Kind() {
	case slog.KindBool:
		return attribute.BoolValue(v.Bool())
	case slog.KindInt64:
		return attribute.Int64Value(v.Int64())
	case slog.KindFloat64:
		return attribute.Float64Value(v.Float64())
	default:
		return attribute.StringValue(v.String())
	}
}

func cut(s string) string {
	if len(s) <= maxValue {
		return s
	}
	n := maxValue
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

type logExporter struct {
	source *Source
	export func(*Records)
}

func (e logExporter) Export(_ context.Context, records []sdklog.Record) error {
	e.export(&Records{e.source, records})
	return nil
}

func (logExporter) Shutdown(context.Context) error   { return nil }
func (logExporter) ForceFlush(context.Context) error { return nil }

// Payload is an export of those records that are at least so bad; nil when
// there are none.
func (r *Records) Payload(least Severity) ([]byte, error) {
	group := &logspb.ScopeLogs{}
	for i := range r.records {
		rec := &r.records[i]
		if rec.Severity() < least {
			continue
		}
		out := &logspb.LogRecord{TimeUnixNano: nanos(rec.Timestamp()), ObservedTimeUnixNano: nanos(rec.ObservedTimestamp()),
			SeverityNumber: logspb.SeverityNumber(rec.Severity()), SeverityText: rec.SeverityText(), Body: valueOf(rec.Body())}
		attrs := make([]attribute.KeyValue, 0, rec.AttributesLen())
		rec.WalkAttributes(func(kv attribute.KeyValue) bool { attrs = append(attrs, kv); return true })
		out.Attributes = attributesOf(attrs)
		out.DroppedAttributesCount = uint32(rec.DroppedAttributes())
		group.Scope = scopeOf(rec.InstrumentationScope())
		group.LogRecords = append(group.LogRecords, out)
	}
	if len(group.LogRecords) == 0 {
		return nil, nil
	}
	return encode(&logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{
		{Resource: resourceOf(r.source.resource), ScopeLogs: []*logspb.ScopeLogs{group}}}})
}
