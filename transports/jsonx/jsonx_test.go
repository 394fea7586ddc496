package jsonx

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data string
		want error
	}{
		"object":                      {`{"a":[1,2,{"b":"}]"}]}`, nil},
		"scalar with space":           {" 1\n", nil},
		"brackets in strings":         {`"` + strings.Repeat(`[{\"`, 400) + `"`, nil},
		"as deep as allowed":          {strings.Repeat("[", 128) + strings.Repeat("]", 128), nil},
		"one deeper":                  {strings.Repeat("[", 129) + strings.Repeat("]", 129), ErrTooDeep},
		"deep and never closed":       {strings.Repeat("[", 1_000), ErrTooDeep},
		"empty":                       {"", ErrMalformed},
		"two values":                  {"1 2", ErrMalformed},
		"trailing comma":              {`{"a":1,}`, ErrMalformed},
		"invalid UTF-8 in a string":   {"\"\xff\"", ErrNotUTF8},
		"unfinished escape":           {`"\`, ErrMalformed},
		"over the size":               {`"` + strings.Repeat("x", 2000) + `"`, ErrTooLong},
		"line separator is just text": {"\"\u2028\"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Check([]byte(tc.data), 1900, 0); !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
}

type colour string

type inner struct {
	Text  string  `json:"text" jsonx:"required"`
	Score float64 `json:"score"`
}

type base struct {
	ID string `json:"id"`
}

type sample struct {
	base
	Name   string            `json:"name" jsonx:"required"`
	Count  int               `json:"count"`
	Small  uint8             `json:"small"`
	On     *bool             `json:"on"`
	Parts  []inner           `json:"parts"`
	Labels map[colour]string `json:"labels"`
	Raw    json.RawMessage   `json:"raw"`
	Any    any               `json:"any"`
	When   time.Time         `json:"when"`
	Pair   [2]int            `json:"pair"`
	Hidden string            `json:"-"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	on := true
	var got sample
	err := Decode([]byte(`{"id":"x","name":"a\u00e9","count":-3,"small":255,"on":true,"parts":[{"text":"t","score":1e2},{"text":""}],
		"labels":{"red":"r"},"raw": {"k":[1]} ,"any":[1,null],"when":"2026-01-02T03:04:05Z","pair":[1,2.0],"unknown":{"deep":[]}}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{base: base{"x"}, Name: "aé", Count: -3, Small: 255, On: &on, Parts: []inner{{"t", 100}, {"", 0}},
		Labels: map[colour]string{"red": "r"}, Raw: json.RawMessage(`{"k":[1]}`), Any: []any{1.0, nil},
		When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Pair: [2]int{1, 2}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestMismatchNamesTheField(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`[]`:                       "want object, got array",
		`{}`:                       "name: missing",
		`{"name":null}`:            "name: missing",
		`{"Name":"case matters"}`:  "Name: unknown field",
		`{"name":1}`:               "name: want string, got number",
		`{"name":"","count":"1"}`:  "count: want integer, got string",
		`{"name":"","count":1.5}`:  "count: want integer in range, got 1.5",
		`{"name":"","count":1e99}`: "count: want integer in range, got 1e99",
		`{"name":"","small":256}`:  "small: want integer of zero or more, got 256",
		`{"name":"","small":-1}`:   "small: want integer of zero or more, got -1",
		`{"name":"","on":"yes"}`:   "on: want boolean, got string",
		`{"name":"","parts":{}}`:   "parts: want array, got object",
		`{"name":"","parts":[{"text":"a"},{"text":true}]}`: "parts[1].text: want string, got boolean",
		`{"name":"","parts":[{"score":1}]}`:                "parts[0].text: missing",
		`{"name":"","labels":{"red":1}}`:                   "labels.red: want string, got number",
		`{"name":"","pair":[1]}`:                           "pair: too few elements",
		`{"name":"","pair":[1,2,3]}`:                       "pair: too many elements",
		`{"name":"","other":1}`:                            "other: unknown field",
		`{"name":"","Hidden":"x"}`:                         "Hidden: unknown field",
		`{"name":"","when":7}`:                             "when: Time.UnmarshalJSON: input is not a JSON string",
	} {
		var got sample
		err := Decode([]byte(data), &got, RejectUnknown())
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Error() != want {
			t.Errorf("%s: got %v, want %s", data, err, want)
		}
	}
}

func TestLastOfEqualKeysWinsWhole(t *testing.T) {
	t.Parallel()
	var got sample
	if err := Decode([]byte(`{"name":"a","name":"b","parts":[{"text":"x"}],"parts":[]}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "b" || len(got.Parts) != 0 {
		t.Fatalf("got %+v", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"a","parts":[{"text":"x"}]}`, `{"a":{"b":[1,"\u0041",null]}}`, "[", `"\ud800"`, " {\n} "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var strict sample
		_ = Decode(data, &strict, RejectUnknown())
		var loose, std any
		if err := Decode(data, &loose); err != nil {
			return
		}
		if err := json.Unmarshal(data, &std); err != nil || !reflect.DeepEqual(loose, std) {
			t.Fatalf("got %v, encoding/json says %v, %v", loose, std, err)
		}
		walk(t, data, std)
	})
}

// walk checks that Members and Elements see what encoding/json sees.
func walk(t *testing.T, data []byte, want any) {
	var got any
	switch want := want.(type) {
	case map[string]any:
		m := map[string]any{}
		_ = Members(data, func(k string, v []byte) error {
			var x any
			if err := json.Unmarshal(v, &x); err != nil {
				t.Fatalf("member %q of %q: %v", v, data, err)
			}
			m[k] = x
			return nil
		})
		got = m
		if !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("members of %q: %v", data, got)
		}
	case []any:
		a := []any{}
		_ = Elements(data, func(_ int, v []byte) error {
			var x any
			if err := json.Unmarshal(v, &x); err != nil {
				t.Fatalf("element %q of %q: %v", v, data, err)
			}
			walk(t, v, x)
			a = append(a, x)
			return nil
		})
		if !reflect.DeepEqual(any(a), any(want)) {
			t.Fatalf("elements of %q: %v", data, a)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"id":"x","name":"hello","count":3,"parts":[{"text":"some text of a prompt","score":1}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var s sample
		if err := Decode(data, &s); err != nil {
			b.Fatal(err)
		}
	}
}
