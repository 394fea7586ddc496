package otlp

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// instrument declares the totals, which are read when they are exported.
func (s *Source) instrument(meter metric.Meter) error {
	var err error
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		c, fault := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		if fault != nil {
			err = fault
		}
		return c
	}
	started := counter("polyhost.turns.started", "{turn}", "Turns that began")
	turns := counter("polyhost.turns", "{turn}", "Turns that ended, by how")
	calls := counter("polyhost.tool.calls", "{call}", "Calls of tools that ended, by how")
	tokens := counter("polyhost.tokens", "{token}", "Tokens that the agents reported, by direction")
	if err != nil {
		return err
	}
	by := func(key, value string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String(key, value))
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := s.host.Counts()
		o.ObserveInt64(started, c.TurnsStarted)
		o.ObserveInt64(turns, c.TurnsComplete, by("status", "complete"))
		o.ObserveInt64(turns, c.TurnsCancelled, by("status", "cancelled"))
		o.ObserveInt64(turns, c.TurnsFailed, by("status", "failed"))
		o.ObserveInt64(calls, c.CallsDone, by("status", "done"))
		o.ObserveInt64(calls, c.CallsFailed, by("status", "failed"))
		o.ObserveInt64(calls, c.CallsDenied, by("status", "denied"))
		o.ObserveInt64(calls, c.CallsCancelled, by("status", "cancelled"))
		o.ObserveInt64(tokens, c.InputTokens, by("direction", "input"))
		o.ObserveInt64(tokens, c.OutputTokens, by("direction", "output"))
		return nil
	}, started, turns, calls, tokens)
	return err
}

// Metrics exports the totals every few seconds until stop.
func (s *Source) Metrics(export func(payload []byte)) (stop func()) {
	return worker(func(ctx context.Context) {
		next := time.NewTimer(metricsFirst)
		defer next.Stop()
		for {
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
			payload, err := s.totals(ctx)
			if err != nil {
				s.log.Warn("Metrics could not be exported", "err", err)
				return
			}
			export(payload)
			next.Reset(metricsEvery)
		}
	})
}

// totals are an export of all metrics as they stand.
func (s *Source) totals(ctx context.Context) ([]byte, error) {
	var now metricdata.ResourceMetrics
	if err := s.reader.Collect(ctx, &now); err != nil {
		return nil, err
	}
	out := &metricspb.ResourceMetrics{Resource: resourceOf(now.Resource)}
	for _, sm := range now.ScopeMetrics {
		group := &metricspb.ScopeMetrics{Scope: scopeOf(sm.Scope)}
		for _, m := range sm.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				continue // none other is declared
			}
			points := make([]*metricspb.NumberDataPoint, len(sum.DataPoints))
			for i, p := range sum.DataPoints {
				points[i] = &metricspb.NumberDataPoint{Attributes: attributesOf(p.Attributes.ToSlice()), StartTimeUnixNano: nanos(p.StartTime),
					TimeUnixNano: nanos(p.Time), Value: &metricspb.NumberDataPoint_AsInt{AsInt: p.Value}}
			}
			group.Metrics = append(group.Metrics, &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit,
				Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: points, IsMonotonic: sum.IsMonotonic,
					AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}}})
		}
		out.ScopeMetrics = append(out.ScopeMetrics, group)
	}
	return encode(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{out}})
}
