package otlp

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	shared "github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// Traces exports a span for each turn and each call of a tool that ends until
// stop, as it ends. A turn and its calls are one trace, also when the turn began
// before.
func (s *Source) Traces(export func(payload []byte)) (stop func(), err error) {
	exporter, err := otlptrace.New(context.Background(), uploader(func(spans []*tracepb.ResourceSpans) error {
		payload, err := encode(&tracepb.TracesData{ResourceSpans: spans})
		if err == nil {
			export(payload)
		}
		return err
	}))
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit, limits.AttributeCountLimit = maxValue, maxAttributes
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(s.resource),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithRawSpanLimits(limits))
	tracer := provider.Tracer(scope, trace.WithInstrumentationVersion(s.version))
	watch := s.host.WatchLive()
	end := worker(func(ctx context.Context) {
		open := func(_ *host.Session, st *state.State) shared.Projection {
			return &tracing{tracer: tracer, turns: map[id.ID]trace.Span{}}
		}
		if err := shared.Project(ctx, watch, open); err != nil {
			s.log.Warn("Traces have ended", "err", err)
		}
	})
	return func() {
		end()
		_ = provider.Shutdown(context.Background()) // the exporter waits for nobody
	}, nil
}

// uploader is where the exporter delivers.
type uploader func([]*tracepb.ResourceSpans) error

func (uploader) Start(context.Context) error { return nil }
func (uploader) Stop(context.Context) error  { return nil }
func (u uploader) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	return u(spans)
}

// tracing follows one session. A turn's span is there from the end of its first
// call, and until the turn's: one for each chat that works.
type tracing struct {
	tracer trace.Tracer
	turns  map[id.ID]trace.Span
}

func (*tracing) Deltas([]*event.Event, *state.State) {}
func (*tracing) Close()                              {}

func (t *tracing) Project(e *event.Event, st *state.State) {
	switch b := e.Body.(type) {
	case *event.ToolEnded:
		chat := st.Chat(e.Chat)
		if chat == nil || chat.Active == nil {
			return
		}
		for _, p := range chat.Active.Parts {
			if p.ID == b.Part && p.Tool != nil {
				t.call(t.turn(e, st, chat.Active.StartedAt), p, e.At)
			}
		}
	case *event.TurnEnded:
		span := t.turn(e, st, e.At.Add(-b.Duration))
		delete(t.turns, e.Turn)
		span.SetAttributes(attribute.String("polyhost.turn.status", string(b.Status)))
		if u := b.Usage; u.Input > 0 || u.Output > 0 {
			span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", u.Input), attribute.Int64("gen_ai.usage.output_tokens", u.Output))
			if u.Model != "" {
				span.SetAttributes(attribute.String("gen_ai.response.model", u.Model))
			}
		}
		if b.Status == event.TurnFailed {
			span.SetStatus(codes.Error, "")
			if b.Error != nil {
				span.SetAttributes(attribute.String("error.type", b.Error.Code))
			}
		}
		span.End(trace.WithTimestamp(e.At))
	}
}

// turn is the span of an event's turn.
func (t *tracing) turn(e *event.Event, st *state.State, start time.Time) trace.Span {
	if span := t.turns[e.Turn]; span != nil {
		return span
	}
	_, span := t.tracer.Start(context.Background(), "turn", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start),
		trace.WithAttributes(attribute.String("polyhost.session", st.Info.ID.String()), attribute.String("polyhost.chat", e.Chat.String()),
			attribute.String("polyhost.turn", e.Turn.String()), attribute.String("polyhost.agent", st.Info.Backend)))
	t.turns[e.Turn] = span
	return span
}

// call makes the span of a call that has ended.
func (t *tracing) call(turn trace.Span, p *event.Part, end time.Time) {
	ctx := trace.ContextWithSpan(context.Background(), turn)
	_, span := t.tracer.Start(ctx, "tool "+p.Tool.Name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(p.StartedAt),
		trace.WithAttributes(attribute.String("polyhost.tool.name", p.Tool.Name), attribute.String("polyhost.tool.kind", string(p.Tool.Tag)),
			attribute.String("polyhost.tool.status", string(p.Tool.Status))))
	if p.Tool.Status == event.CallFailed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
}
