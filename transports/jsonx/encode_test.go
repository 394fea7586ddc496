package jsonx

import (
	"encoding/json"
	"testing"
)

// FuzzAppendString holds the quick encoder to encoding/json.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c\n\r\t\x00\x1f\x7f", "é世界\u2028\U0001F600", "bad\xffbytes\xc3", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		slow, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if err := json.Unmarshal(slow, &want); err != nil || got != want {
			t.Errorf("%q is read back as %q, want %q, %v", s, got, want, err)
		}
	})
}

func TestEncodeLeavesMarkupAlone(t *testing.T) {
	if b, err := Encode(map[string]string{"a": "<&>"}); err != nil || string(b) != `{"a":"<&>"}` {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
