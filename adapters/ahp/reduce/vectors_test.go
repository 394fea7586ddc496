package reduce

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// vector is one case: actions applied in order to a state.
type vector struct {
	Description string   `json:"description"`
	Reducer     string   `json:"reducer"`
	Initial     Object   `json:"initial"`
	Actions     []Object `json:"actions"`
	Expected    Object   `json:"expected"`
}

// TestVectors runs the project's own vectors and every folder in the path
// list POLYHOST_AHP_VECTORS. A null on either side means "absent".
func TestVectors(t *testing.T) {
	t.Parallel()
	folders := append([]string{"../../../testdata/ahp/reducers"}, filepath.SplitList(os.Getenv("POLYHOST_AHP_VECTORS"))...)
	ran := map[string]int{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no vectors in %s (%v)", folder, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) { ran[runVector(t, file)]++ })
		}
	}
	total := 0
	for _, n := range ran {
		total += n
	}
	t.Logf("ran %d vectors of %d folders: %v", total, len(folders), ran)
}

func runVector(t *testing.T, file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	reduce := For(v.Reducer)
	if reduce == nil {
		t.Fatalf("unknown reducer %q", v.Reducer)
	}
	before, _ := json.Marshal(v.Initial)
	state := v.Initial
	for _, a := range v.Actions {
		next, changed := reduce(state, a)
		if !changed && reflect.ValueOf(next).Pointer() != reflect.ValueOf(state).Pointer() {
			t.Errorf("%s: no change, but another state", a["type"])
		}
		state = next
	}
	if got, want := bare(state), bare(v.Expected); !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %s\nwant %s", v.Description, show(got), show(want))
	}
	if after, _ := json.Marshal(v.Initial); string(after) != string(before) {
		t.Errorf("the initial state was changed:\n was %s\n now %s", before, after)
	}
	return v.Reducer
}

// bare drops the keys that are null, all the way down.
func bare(v any) any {
	switch v := v.(type) {
	case Object:
		o := Object{}
		for k, x := range v {
			if x != nil {
				o[k] = bare(x)
			}
		}
		return o
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = bare(x)
		}
		return l
	}
	return v
}

func show(v any) string { b, _ := json.Marshal(v); return string(b) }
