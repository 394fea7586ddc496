package zidane

import "github.com/polyhost/polyhost/transports/jsonx"

// encode is v as JSON, without escapes for HTML. The values given to it always
// encode.
func encode(v any) []byte {
	b, err := jsonx.Encode(v)
	if err != nil {
		panic(err)
	}
	return b
}
