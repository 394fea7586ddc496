package jsonx

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// FieldError says which part of a document does not fit.
type FieldError struct {
	Path   string // from the root, like parts[2].text; empty for the root
	Reason string // like "want string, got number" or "missing"
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Option changes how Decode judges.
type Option func(*decoder)

// RejectUnknown refuses members that the Go type has no field for.
func RejectUnknown() Option { return func(d *decoder) { d.rejectUnknown = true } }

type decoder struct{ rejectUnknown bool }

// Decode checks data with the default depth and decodes it into *v, which must
// be a non-nil pointer. A field tagged `jsonx:"required"` must be there and not
// null. A mismatch is a *FieldError; other errors are those of Check.
func Decode(data []byte, v any, opts ...Option) error {
	if err := Check(data, 0, 0); err != nil {
		return err
	}
	return DecodeChecked(data, v, opts...)
}

// DecodeChecked is Decode for data that has passed Check, for instance as part
// of a larger document.
func DecodeChecked(data []byte, v any, opts ...Option) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("jsonx: decode into %T, want a pointer", v)
	}
	var d decoder
	for _, o := range opts {
		o(&d)
	}
	i := skipSpace(data, 0)
	return d.value(data[i:skipValue(data, i)], rv.Elem(), "")
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawType             = reflect.TypeFor[json.RawMessage]()
	numberType          = reflect.TypeFor[json.Number]()
)

func mismatch(path, want string, got []byte) error {
	return &FieldError{path, "want " + want + ", got " + Kind(got)}
}

func (d *decoder) value(data []byte, v reflect.Value, path string) error {
	t := v.Type()
	switch {
	case t == rawType:
		v.SetBytes(append([]byte(nil), data...))
		return nil
	case t.Kind() == reflect.Pointer:
		if data[0] == 'n' {
			v.SetZero()
			return nil
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return d.value(data, v.Elem(), path)
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return custom(v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(data), path)
	case data[0] == 'n':
		return nil
	case t == numberType:
		if Kind(data) != "number" {
			return mismatch(path, "number", data)
		}
		v.SetString(string(data))
		return nil
	case reflect.PointerTo(t).Implements(textUnmarshalerType):
		if data[0] != '"' {
			return mismatch(path, "string", data)
		}
		s, err := unquote(data)
		if err != nil {
			return &FieldError{path, "bad string"}
		}
		return custom(v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)), path)
	}
	return d.plain(data, v, path)
}

// custom reports the error of a type that decodes itself. Such types write
// their errors for peers.
func custom(err error, path string) error {
	if err == nil {
		return nil
	}
	if fe, ok := err.(*FieldError); ok {
		return &FieldError{join(path, fe.Path), fe.Reason}
	}
	return &FieldError{path, err.Error()}
}

func (d *decoder) plain(data []byte, v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Bool:
		if Kind(data) != "boolean" {
			return mismatch(path, "boolean", data)
		}
		v.SetBool(data[0] == 't')
	case reflect.String:
		if data[0] != '"' {
			return mismatch(path, "string", data)
		}
		s, err := unquote(data)
		if err != nil {
			return &FieldError{path, "bad string"}
		}
		v.SetString(s)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if Kind(data) != "number" {
			return mismatch(path, "integer", data)
		}
		n, err := integer(data)
		if err != nil || v.OverflowInt(n) {
			return &FieldError{path, "want integer in range, got " + shown(string(data))}
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if Kind(data) != "number" {
			return mismatch(path, "integer", data)
		}
		n, err := strconv.ParseUint(string(data), 10, 64)
		if err != nil {
			var whole int64
			whole, err = integer(data)
			n = uint64(whole)
			if whole < 0 {
				err = strconv.ErrRange
			}
		}
		if err != nil || v.OverflowUint(n) {
			return &FieldError{path, "want integer of zero or more, got " + shown(string(data))}
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		if Kind(data) != "number" {
			return mismatch(path, "number", data)
		}
		n, err := strconv.ParseFloat(string(data), 64)
		if err != nil || v.OverflowFloat(n) {
			return &FieldError{path, "number out of range"}
		}
		v.SetFloat(n)
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return fmt.Errorf("jsonx: %s cannot hold JSON", v.Type())
		}
		var x any
		if err := json.Unmarshal(data, &x); err != nil {
			return &FieldError{path, "number out of range"}
		}
		v.Set(reflect.ValueOf(x))
	case reflect.Slice, reflect.Array:
		return d.elements(data, v, path)
	case reflect.Map:
		return d.dict(data, v, path)
	case reflect.Struct:
		return d.object(data, v, path)
	default:
		return fmt.Errorf("jsonx: %s cannot hold JSON", v.Type())
	}
	return nil
}

// integer accepts 5 and, as some encoders write whole numbers so, 5.0 and 5e0.
func integer(data []byte) (int64, error) {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err == nil {
		return n, nil
	}
	f, ferr := strconv.ParseFloat(string(data), 64)
	const exact = 1 << 53 // beyond it a float is not sure of its last digit
	if ferr != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, err
	}
	return int64(f), nil
}

func (d *decoder) elements(data []byte, v reflect.Value, path string) error {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		var b []byte
		if data[0] != '"' || json.Unmarshal(data, &b) != nil {
			return &FieldError{path, "want base64 string"}
		}
		v.SetBytes(b)
		return nil
	}
	if data[0] != '[' {
		return mismatch(path, "array", data)
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	count := 0
	err := Elements(data, func(i int, e []byte) error {
		count++
		at := path + "[" + strconv.Itoa(i) + "]"
		if v.Kind() == reflect.Array {
			if i >= v.Len() {
				return &FieldError{path, "too many elements"}
			}
			return d.value(e, v.Index(i), at)
		}
		x := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(e, x, at); err != nil {
			return err
		}
		v.Set(reflect.Append(v, x))
		return nil
	})
	if err == nil && v.Kind() == reflect.Array && count < v.Len() {
		return &FieldError{path, "too few elements"}
	}
	return err
}

func (d *decoder) dict(data []byte, v reflect.Value, path string) error {
	if data[0] != '{' {
		return mismatch(path, "object", data)
	}
	if v.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("jsonx: %s cannot hold an object", v.Type())
	}
	v.Set(reflect.MakeMap(v.Type()))
	return Members(data, func(key string, e []byte) error {
		x := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(e, x, join(path, shown(key))); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), x)
		return nil
	})
}

func (d *decoder) object(data []byte, v reflect.Value, path string) error {
	if data[0] != '{' {
		return mismatch(path, "object", data)
	}
	shape := shapeOf(v.Type())
	var seen map[string]bool
	if shape.required > 0 {
		seen = make(map[string]bool, shape.required)
	}
	err := Members(data, func(key string, e []byte) error {
		f, ok := shape.fields[key]
		if !ok {
			if d.rejectUnknown {
				return &FieldError{join(path, shown(key)), "unknown field"}
			}
			return nil
		}
		x := v.FieldByIndex(f.index)
		x.SetZero() // the last of several equal keys wins, whole
		if f.required && e[0] != 'n' {
			seen[key] = true
		}
		return d.value(e, x, join(path, key))
	})
	if err != nil {
		return err
	}
	for _, name := range shape.order {
		if shape.fields[name].required && !seen[name] {
			return &FieldError{join(path, name), "missing"}
		}
	}
	return nil
}

func join(path, key string) string {
	switch {
	case path == "":
		return key
	case key == "" || key[0] == '[':
		return path + key
	}
	return path + "." + key
}

// shown cuts a peer's own text for an error.
func shown(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// shape is what Decode needs to know of a struct type.
type shape struct {
	fields   map[string]field
	order    []string
	required int
}

type field struct {
	index    []int
	required bool
}

var shapes sync.Map // reflect.Type to *shape

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{fields: map[string]field{}}
	s.add(t, nil)
	shapes.Store(t, s)
	return s
}

// add collects the fields of t; those of embedded structs follow and do not
// replace what is there.
func (s *shape) add(t reflect.Type, index []int) {
	var embedded []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			embedded = append(embedded, f)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, taken := s.fields[name]; taken {
			continue
		}
		required := f.Tag.Get("jsonx") == "required"
		if required {
			s.required++
		}
		s.fields[name] = field{append(append([]int(nil), index...), f.Index...), required}
		s.order = append(s.order, name)
	}
	for _, f := range embedded {
		s.add(f.Type, append(append([]int(nil), index...), f.Index...))
	}
}
