package wiretest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScriptsAgainstTheEchoServer(t *testing.T) {
	t.Setenv("POLYHOST_WIRE_SCRIPTS", "")
	g := newEchoGateway()
	t.Run("all", func(t *testing.T) { RunFolders(t, g, "testdata") })
	if len(g.running) != 0 {
		t.Fatalf("%d servers are left running", len(g.running))
	}
}

func TestFurtherFoldersComeFromTheEnvironment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "echo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "-- s --\nA ws\nA> {\"do\":\"write\",\"name\":\"ran\"}\nA< {\"ok\":true}\nfile ran is \"written\"\n"
	if err := os.WriteFile(filepath.Join(dir, "one.txtar"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POLYHOST_WIRE_SCRIPTS", dir)
	g := &countingGateway{echoGateway: newEchoGateway()}
	t.Run("all", func(t *testing.T) { RunFolders(t, g) })
	if g.starts != 1 {
		t.Fatalf("%d scripts ran", g.starts)
	}
}

type countingGateway struct {
	*echoGateway
	starts int
}

func (g *countingGateway) Start(p Place) (Endpoints, error) {
	g.starts++
	return g.echoGateway.Start(p)
}

// judgedGateway has the frames of the echo server judged.
type judgedGateway struct {
	*echoGateway
	judges []*pickyJudge
}

func (g *judgedGateway) Judge(front string) Judge {
	j := &pickyJudge{front: front}
	g.judges = append(g.judges, j)
	return j
}

// pickyJudge wants no frame to have "b".
type pickyJudge struct {
	front string
	sent  int
}

func (j *pickyJudge) Sent([]byte) { j.sent++ }

func (j *pickyJudge) Received(frame []byte) error {
	if strings.Contains(string(frame), `"b"`) {
		return errors.New("it has b")
	}
	return nil
}

// A script that expects what it gets fails when a judge does not.
func TestFramesAreJudged(t *testing.T) {
	t.Parallel()
	s, err := parse("x.txtar", "echo", []byte("-- s --\nA ws\nA> {\"a\":1}\nA< {\"a\":1}\nA> {\"b\":2}\nA< {\"b\":2}\nA ws\nA> {\"a\":3}\nA< {\"a\":3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := &judgedGateway{echoGateway: newEchoGateway()}
	err = execute(t, g, s)
	if err == nil || !strings.Contains(err.Error(), "x.txtar: A: frame 2 is wrong: it has b") || strings.Contains(err.Error(), "frame 1") {
		t.Errorf("got %v", err)
	}
	if len(g.judges) != 2 || g.judges[0].front != "echo" || g.judges[0].sent != 2 || g.judges[1].sent != 1 {
		t.Errorf("judged were %+v", g.judges)
	}
}

// TestFailures runs scripts that must fail, and looks at what they report.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps string
		want  []string // parts of the message; the first names the line
	}{
		"value": {"A> {\"a\":[{\"b\":1}]}\nA< {\"a\":[{\"b\":2}]}",
			[]string{"x.txtar:5:", "a[0].b: want 2, got 1", `step: A< {"a":[{"b":2}]}`, `{"a":[{"b":1}]}`, "the log of the echo server"}},
		"missing":                   {"A> {\"a\":1}\nA< {\"b\":1}", []string{":5:", "b: is missing"}},
		"must be absent":            {"A> {\"a\":1}\nA< {\"a\":\"$absent\"}", []string{":5:", "a: must be absent"}},
		"exact":                     {"A> {\"a\":1,\"b\":2}\nA<= {\"a\":1}", []string{":5:", "b: is not expected"}},
		"exact object":              {"A> {\"o\":{\"a\":1,\"b\":2}}\nA< {\"o\":{\"a\":1,\"$exact\":true}}", []string{":5:", "o.b: is not expected"}},
		"array length":              {"A> [1,2]\nA< [1]", []string{":5:", "want 1 elements, got 2"}},
		"kind":                      {"A> {\"a\":1.5}\nA< {\"a\":\"$int\"}", []string{":5:", "a: want $int, got 1.5"}},
		"unknown kind":              {"A> {\"a\":1}\nA< {\"a\":\"$integer\"}", []string{":5:", `"$integer" is not a wildcard`}},
		"unknown kind, passed over": {"A<< {\"a\":[\"$sting\"]}", []string{":4:", `"$sting" is not a wildcard`}},
		"nothing comes":             {"timeout 50ms\nA< {\"a\":1}", []string{":5:", "nothing more came in time", "has received 0 frames"}},
		"passed over":               {"timeout 50ms\nA> {\"a\":1}\nA<< {\"a\":2}", []string{":6:", "nothing more came in time", `> 1: {"a":1}`}},
		"forbidden":                 {"A<! {\"a\":1}\nA> {\"a\":1}\nA> {\"a\":2}\nA<< {\"a\":2}", []string{":7:", "forbidden in line 4"}},
		"broken quiet":              {"A> {\"a\":1}\nA quiet 5s", []string{":5:", "frame 1 breaks the quiet"}},
		"put together":              {"A> {\"do\":\"stream\",\"id\":1,\"texts\":[\"a\",\"b\"]}\nA concat .text of {\"kind\":\"delta\"} until {\"kind\":\"done\"} is \"abc\"", []string{":5:", `want "abc", got "ab"`}},
		"close code":                {"A> {\"do\":\"close\",\"code\":4002}\nA closes 4001", []string{":5:", `closed with 4002 "as asked"`}},
		"ends early":                {"A> {\"do\":\"close\",\"code\":4002}\nA< {\"a\":1}", []string{":5:", "the connection ended", "4002"}},
		"not refused":               {"B ws refused=401", []string{":4:", "the upgrade was not refused"}},
		"other refusal":             {"B ws refused=403 bearer=wrong", []string{":4:", "refused with status 401, want 403"}},
		"status":                    {"H http GET plain/plain\nH status 200", []string{":5:", "the status is 418"}},
		"not connected":             {"B> {}", []string{":4:", "client B is not connected"}},
		"unset variable":            {"A> ${nowhere}", []string{":4:", "variable ${nowhere} is not set"}},
		"file":                      {"timeout 20ms\nfile x is \"y\"", []string{":5:", "the file holds"}},
		"no such front":             {"front other", []string{":4:", `there is no front "other"`}},
		"captures differ":           {"A> {\"a\":1,\"b\":2}\nA< {\"a\":\"$x=int\"}\nA> {\"b\":2}\nA< {\"b\":${x}}", []string{":7:", "b: want 1, got 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := parse("x.txtar", "echo", []byte("prose\n-- steps --\nA ws\n"+tc.steps+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			err = execute(t, newEchoGateway(), s)
			if err == nil {
				t.Fatal("it passed")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the report lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestScriptsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"only prose\n":                          "no steps",
		"-- s --\nA juggle\n":                   `:2: "juggle" is not a verb`,
		"-- s --\n\n  lost continuation\n":      ":3: a continuation without a step",
		"p\np\n-- s --\nA ws\n???\n":            `:5: cannot read step "???"`,
		"-- home/x/../../y --\n-- s --\nA ws\n": "outside the working directory",
		"-- work/../x --\n-- s --\nA ws\n":      "outside the working directory",
		"-- work/a --\n1\n2\n-- s --\nfly x\n":  `:5: "fly" is not a verb`,
	} {
		if _, err := parse("x.txtar", "echo", []byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", data, err, want)
		}
	}
}

// TestBinary drives a program that behaves like serve, as far as the runner
// can tell.
func TestBinary(t *testing.T) {
	t.Parallel()
	b, err := Build(t.Context(), "./testdata/fakehost", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	place := func(env ...string) Place {
		dir := t.TempDir()
		p := Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"), Env: env}
		if err := errors.Join(os.Mkdir(p.Home, 0o700), os.Mkdir(p.Work, 0o755)); err != nil {
			t.Fatal(err)
		}
		return p
	}

	p := place("SAY=hello")
	e, err := b.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	first := e["echo"]["token"]
	if first == "" || e["console"]["token"] == "" {
		t.Fatalf("endpoints: %v", e)
	}
	if err := b.Kill(p); err != nil {
		t.Fatal(err)
	}
	// The file of the killed one must not be taken for that of its successor.
	if e, err = b.Start(p); err != nil || e["echo"]["token"] == first {
		t.Fatalf("after kill -9: %v, %v", e, err)
	}
	if err := b.Stop(p); err != nil {
		t.Fatal(err)
	}
	if log := b.Log(p); !strings.Contains(log, "hello") || !strings.Contains(log, "bye") {
		t.Fatalf("log: %q", log)
	}

	p = place("EXIT=3", "SAY=cannot go on")
	var exit *exec.ExitError
	if _, err := b.Start(p); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "cannot go on") {
		t.Fatalf("a program that ends at once: %v", err)
	}
}
