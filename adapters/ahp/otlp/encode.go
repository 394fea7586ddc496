package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// encode is a message in OTLP/JSON: Protobuf's JSON, but for enums, which are
// numbers, and the ids of traces and spans, which are hexadecimal.
func encode(m proto.Message) ([]byte, error) {
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := hexIDs(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return json.Marshal(v)
}

// hexIDs spells ids anew. Keys are those of OTLP alone: attributes are lists.
func hexIDs(v any) error {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := hexIDs(x); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, x := range v {
			text, ok := x.(string)
			if !ok || key != "traceId" && key != "spanId" && key != "parentSpanId" {
				if err := hexIDs(x); err != nil {
					return err
				}
				continue
			}
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			v[key] = hex.EncodeToString(raw)
		}
	}
	return nil
}

func resourceOf(r *resource.Resource) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: attributesOf(r.Attributes())}
}

func scopeOf(s instrumentation.Scope) *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: s.Name, Version: s.Version}
}

func attributesOf(list []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(list))
	for i, kv := range list {
		out[i] = &commonpb.KeyValue{Key: string(kv.Key), Value: valueOf(kv.Value)}
	}
	return out
}

// valueOf has the kinds that this package makes; others are texts.
func valueOf(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	default:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v.String()}}
	}
}
