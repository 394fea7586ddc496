// Package jsonx decodes JSON from peers that are not trusted: size, depth and
// encoding are checked first, then values are decoded strictly into Go types,
// and a mismatch names the field, so that a peer can be told which of its
// fields is wrong.
//
// It differs from encoding/json where that is lenient: keys match in case,
// a number is never taken for a string or the other way round, and unknown or
// missing fields can be refused. As there, the last of several equal keys wins
// and null leaves a field as if it were absent.
//
// The other way it encodes without the escapes for HTML, and strings quickly.
//
// It must not know any protocol: callers turn its errors into their own codes.
package jsonx

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Errors of Check.
var (
	ErrTooLong   = errors.New("document too long")
	ErrNotUTF8   = errors.New("not UTF-8")
	ErrTooDeep   = errors.New("nested too deeply")
	ErrMalformed = errors.New("not JSON")
)

// Check says whether data is one JSON value of at most maxBytes bytes (zero:
// any size) that nests at most maxDepth deep (zero: MaxDepth). All other
// functions of this package are for data that passed it.
func Check(data []byte, maxBytes, maxDepth int) error {
	if maxBytes > 0 && len(data) > maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(data), maxBytes)
	}
	if !utf8.Valid(data) {
		return ErrNotUTF8
	}
	if maxDepth <= 0 {
		maxDepth = MaxDepth
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: more than %d levels", ErrTooDeep, maxDepth)
			}
		case c == '}', c == ']':
			depth--
		}
	}
	if !json.Valid(data) {
		return ErrMalformed
	}
	return nil
}

// Kind is the JSON type of a value, as an error names it.
func Kind(value []byte) string {
	i := skipSpace(value, 0)
	if i == len(value) {
		return "nothing"
	}
	switch value[i] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		return "number"
	}
}

// Members calls f for each member of an object in order, with the key decoded
// and the value without surrounding space. It returns the first error of f.
// value must be valid; anything but an object has no members.
func Members(value []byte, f func(key string, value []byte) error) error {
	i := skipSpace(value, 0)
	if i == len(value) || value[i] != '{' {
		return nil
	}
	for i = skipSpace(value, i+1); value[i] != '}'; {
		end := skipString(value, i)
		key, err := unquote(value[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(value, skipSpace(value, end)+1) // the colon
		end = skipValue(value, i)
		if err := f(key, value[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(value, end); value[i] == ',' {
			i = skipSpace(value, i+1)
		}
	}
	return nil
}

// Elements calls f for each element of an array, like Members.
func Elements(value []byte, f func(i int, value []byte) error) error {
	i := skipSpace(value, 0)
	if i == len(value) || value[i] != '[' {
		return nil
	}
	i = skipSpace(value, i+1)
	for n := 0; value[i] != ']'; n++ {
		end := skipValue(value, i)
		if err := f(n, value[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(value, end); value[i] == ',' {
			i = skipSpace(value, i+1)
		}
	}
	return nil
}

func unquote(s []byte) (string, error) {
	for _, c := range s {
		if c == '\\' {
			var out string
			err := json.Unmarshal(s, &out)
			return out, err
		}
	}
	return string(s[1 : len(s)-1]), nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	default:
		for i < len(b) {
			switch b[i] {
			case ',', '}', ']', ' ', '\n', '\t', '\r':
				return i
			}
			i++
		}
		return i
	}
}
