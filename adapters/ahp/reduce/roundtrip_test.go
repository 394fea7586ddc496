package reduce

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
)

// TestRoundTrips decodes values of the protocol as the reducers do, encodes them
// and finds everything as it came: the project's own and those of every folder in
// the path list POLYHOST_AHP_ROUNDTRIPS. Keys of later versions may stay or go.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	own := "../../../testdata/ahp/round-trips"
	ran := 0
	for _, folder := range append([]string{own}, filepath.SplitList(os.Getenv("POLYHOST_AHP_ROUNDTRIPS"))...) {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no values in %s (%v)", folder, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) { roundTrip(t, file, folder == own); ran++ })
		}
	}
	t.Logf("ran %d", ran)
}

func roundTrip(t *testing.T, file string, own bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Type              string
		Input             json.RawMessage
		AcceptableOutputs []any
		PreservedOutput   any
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	o, err := Decode(v.Input)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if v.PreservedOutput != nil {
		v.AcceptableOutputs = append(v.AcceptableOutputs, v.PreservedOutput)
	}
	for _, want := range v.AcceptableOutputs {
		if reflect.DeepEqual(got, want) {
			if err := strict.Shape(v.Type, got); own && err != nil && filepath.Base(file) != "unknown-kinds.json" {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("%s came back as %s", v.Input, encoded)
}
