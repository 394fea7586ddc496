package cognitio

import (
	"encoding/json"
	"reflect"
	"testing"
)

func same(t *testing.T, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		t.Errorf("differ:\n%s\n%s", w, g)
	}
}
