package event

import "encoding/json"

// Text grows at its end and is shared without copying: a Text taken at some
// moment keeps its bytes while its owner appends more, because appending only
// writes beyond the length that anyone else has seen. One goroutine appends;
// any number may read the values it handed out.
type Text struct{ b []byte }

// TextOf is a Text of s.
func TextOf(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{b: []byte(s)}
}

// Append returns t with s at its end. Only the newest value may be appended
// to: two different continuations of one Text would overwrite each other.
func (t Text) Append(s string) Text { return Text{b: append(t.b, s...)} }

// Len is the length in bytes.
func (t Text) Len() int { return len(t.b) }

// String copies the text out.
func (t Text) String() string { return string(t.b) }

// From copies the text from byte n on.
func (t Text) From(n int) string { return string(t.b[n:]) }

// IsZero lets encoding/json's omitzero leave an empty text out.
func (t Text) IsZero() bool { return len(t.b) == 0 }

// Equal compares by content.
func (t Text) Equal(u Text) bool { return string(t.b) == string(u.b) }

// MarshalJSON writes a JSON string.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(string(t.b)) }

// UnmarshalJSON reads a JSON string.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = TextOf(s)
	return nil
}

// Is compares with a string.
func (t Text) Is(s string) bool { return string(t.b) == s }

// Clip returns t such that appending to it copies: for a second continuation.
func (t Text) Clip() Text { return Text{b: t.b[:len(t.b):len(t.b)]} }
