package cognitio

import (
	"bytes"
	"encoding/json"
	"testing"
)

func same(t *testing.T, want, got any) {
	t.Helper()
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	if !bytes.Equal(w, g) {
		t.Errorf("differ:\n%.800s\n%.800s", w, g)
	}
}
