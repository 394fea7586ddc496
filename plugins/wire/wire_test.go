package wire

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"google.golang.org/protobuf/proto"
)

// over takes frames across the wire.
func over(t *testing.T, frames ...agent.Frame) []agent.Frame {
	t.Helper()
	var got []agent.Frame
	err := Batches(frames, func(b *Batch) error {
		data, err := proto.Marshal(b)
		if err != nil {
			return err
		}
		if len(data) > MaxMessage {
			t.Errorf("a message of %d bytes", len(data))
		}
		var back Batch
		if err := proto.Unmarshal(data, &back); err != nil {
			return err
		}
		got, err = Decode(got, &back)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEveryFieldOfAFrameCrosses(t *testing.T) {
	t.Parallel()
	var f agent.Frame
	fill(reflect.ValueOf(&f).Elem())
	if got := over(t, f); !reflect.DeepEqual(got, []agent.Frame{f}) {
		t.Errorf("got  %+v\nwant %+v", got, f)
	}
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		var one agent.Frame
		reflect.ValueOf(&one).Elem().Field(i).Set(v.Field(i))
		if got := over(t, one); !reflect.DeepEqual(got, []agent.Frame{one}) {
			t.Errorf("%s alone: got %+v", v.Type().Field(i).Name, got)
		}
	}
}

// fill gives everything in v a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	default:
		panic(v.Kind())
	}
}

func TestOutputThatIsNoTextCrosses(t *testing.T) {
	t.Parallel()
	got := over(t, agent.Frame{Kind: agent.ToolOutput, Call: "a\xff", Text: "x\xffy"})
	if got[0].Text != "x\ufffdy" || got[0].Call != "a\ufffd" {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsTooLargeIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("é", maxFrame)
	seven := 7
	got := over(t,
		agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "a" + huge},
		agent.Frame{Kind: agent.ToolEnd, Call: "c", Result: &agent.Result{Output: huge, ExitCode: &seven}},
		agent.Frame{Kind: agent.Permission, Request: "r", Tool: &agent.Tool{Name: "write", Input: json.RawMessage(`{}`), Edits: []event.FileEdit{{Patch: huge}}}},
		agent.Frame{Kind: agent.Image, Image: &event.Attachment{Data: []byte(huge)}},
		agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "after"},
	)
	if len(got) != 5 {
		t.Fatalf("%d frames", len(got))
	}
	if g := got[0]; g.Part != "p" || !strings.HasSuffix(g.Text, "[the rest was too large]\n") {
		t.Errorf("text: %d bytes", len(g.Text))
	}
	if g := got[1]; g.Call != "c" || *g.Result.ExitCode != 7 || g.Result.Error == "" {
		t.Errorf("result: %+v", g.Result)
	}
	if g := got[2]; g.Request != "r" || g.Tool.Name != "write" || g.Tool.Edits != nil {
		t.Errorf("permission: %+v", g.Tool)
	}
	if g := got[3]; g.Kind != agent.Notice || g.Notice.Code != "truncated" {
		t.Errorf("image: %+v", g)
	}
	if got[4].Text != "after" {
		t.Errorf("then: %+v", got[4])
	}
}

func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Log("protoc is not installed: nothing to compare with")
		return
	}
	dir := t.TempDir()
	if out, err := exec.Command("./generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"agent.pb.go", "agent_grpc.pb.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if code(got) != code(want) {
			t.Errorf("%s is stale: run go generate ./plugins/...", name)
		}
	}
}

// code is a generated file without its comments, which name the version of
// protoc.
func code(b []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "//") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func FuzzBatch(f *testing.F) {
	for _, frame := range []agent.Frame{
		{Kind: agent.TextDelta, Part: "p", Text: "x"},
		{Kind: agent.Permission, Tool: &agent.Tool{Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)}},
		{Kind: agent.TurnEnd, Status: event.TurnFailed, Error: &event.Error{Code: "c", Message: "m"}},
	} {
		_ = Batches([]agent.Frame{frame}, func(b *Batch) error {
			data, err := proto.Marshal(b)
			f.Add(data)
			return err
		})
	}
	f.Add([]byte("\x0a\x04\x5a\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Batch
		if proto.Unmarshal(data, &b) != nil {
			return
		}
		frames, err := Decode(nil, &b)
		if err != nil {
			return
		}
		again := over(t, frames...)
		if len(again) != len(frames) {
			t.Fatalf("%d frames became %d", len(frames), len(again))
		}
	})
}
