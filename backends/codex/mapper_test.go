package codex

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func quietMapper(dirs ...string) *mapper {
	m := newMapper(slog.New(slog.DiscardHandler), dirs)
	m.open("thread-1", true)
	m.model = "m1"
	return m
}

// mapped feeds one record to the mapper as a conversation does.
func mapped(m *mapper, record []byte) []agent.Frame {
	msg, err := decode(record)
	if err != nil || !followed[msg.Method] {
		return nil
	}
	var n note
	if lenient(json.Unmarshal(msg.Params, &n)) != nil {
		return nil
	}
	return m.notification(msg.Method, &n)
}

// The turns in testdata have the shape of captured ones; the golden file has
// the frames of each.
func TestTurnsBecomeFrames(t *testing.T) {
	t.Parallel()
	in, err := os.ReadFile("testdata/turns.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var m *mapper
	for line := range strings.Lines(string(in)) {
		if strings.HasPrefix(line, "== ") {
			m = quietMapper()
			got.WriteString(line)
			continue
		}
		for _, f := range mapped(m, []byte(line)) {
			got.Write(marshal(f))
			got.WriteByte('\n')
		}
	}
	golden := "testdata/turns.golden"
	if *agenttest.Update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wants, gots := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	part := ""
	for i := range max(len(wants), len(gots)) {
		w, g := "", ""
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if strings.HasPrefix(w, "== ") {
			part = w
		}
		if w != g {
			t.Fatalf("%s: frame\n%s\nwant\n%s", part, g, w)
		}
	}
}

func TestShellLines(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`/bin/bash -lc 'echo a'`:                   "echo a",
		`bash -lc ls`:                              "ls",
		`bash -lc 'open`:                           `bash -lc 'open`,
		`/bin/zsh -lc "trap '' TERM; echo \$HOME"`: "trap '' TERM; echo $HOME",
		`/bin/bash -lc 'it'"'"'s'`:                 "it's",
		`python3 -c 'print(1)'`:                    `python3 -c 'print(1)'`,
		`/bin/bash -lc 'a' 'b'`:                    `/bin/bash -lc 'a' 'b'`,
		``:                                         ``,
	} {
		if got := shellLine(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestPatchesShowBothTexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\nfour"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := quietMapper(dir)
	edits := func(kind, move, diff string) []string {
		c := change{Path: path, Diff: diff}
		c.Kind.Type, c.Kind.Move = kind, move
		var out []string
		for _, e := range m.edits(&c) {
			after := "-"
			if e.After != nil {
				after = *e.After
			}
			before := "-"
			if e.Before != nil {
				before = *e.Before
			}
			out = append(out, e.Kind+"|"+filepath.Base(e.Path)+"|"+before+"|"+after)
		}
		return out
	}
	old := "one\ntwo\nthree\nfour"
	for _, test := range []struct {
		kind, move, diff string
		want             []string
	}{
		{"update", "", "@@ -2,1 +2,2 @@\n-two\n+2\n+2b\n", []string{"edit|a.txt|" + old + "|one\n2\n2b\nthree\nfour"}},
		{"update", "", "@@ -1,2 +1,1 @@\n one\n-two\n@@ -4,1 +3,1 @@\n-four\n\\ No newline at end of file\n+FOUR\n\\ No newline at end of file\n",
			[]string{"edit|a.txt|" + old + "|one\nthree\nFOUR"}},
		{"update", "", "@@ -0,0 +1,1 @@\n+zero\n", []string{"edit|a.txt|" + old + "|zero\n" + old}},
		{"update", "", "@@ -2,1 +2,1 @@\n-nine\n+2\n", []string{"edit|a.txt|" + old + "|-"}},
		{"update", "", "garbage", []string{"edit|a.txt|" + old + "|-"}},
		{"update", filepath.Join(dir, "b.txt"), "@@ -1,1 +1,1 @@\n-one\n+1\n", []string{"delete|a.txt|" + old + "|-", "create|b.txt|-|1\ntwo\nthree\nfour"}},
		{"add", "", "new\n", []string{"create|a.txt|-|new\n"}},
		{"delete", "", "", []string{"delete|a.txt|" + old + "|-"}},
	} {
		if got := edits(test.kind, test.move, test.diff); strings.Join(got, ";") != strings.Join(test.want, ";") {
			t.Errorf("%s %q:\n%q, want\n%q", test.kind, test.diff, got, test.want)
		}
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"message":"m","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}`:                                 event.CodeAuth,
		`{"message":"m","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}`:                        event.CodeRateLimited,
		`{"message":"m","codexErrorInfo":"usageLimitExceeded"}`:                                                            event.CodeRateLimited,
		`{"message":"m","codexErrorInfo":"internalServerError"}`:                                                           event.CodeOverloaded,
		`{"message":"m","codexErrorInfo":"contextWindowExceeded"}`:                                                         event.CodeOverflow,
		`{"message":"m","codexErrorInfo":"cyberPolicy"}`:                                                                   event.CodeRefusal,
		`{"message":"m","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}`:                          event.CodeCutStream,
		`{"message":"stream disconnected before completion: x","codexErrorInfo":"other"}`:                                  event.CodeCutStream,
		`{"message":"stream disconnected: Incomplete response returned, reason: content_filter","codexErrorInfo":"other"}`: event.CodeRefusal,
		`{"message":"{\"error\": {\"message\": \"bad\"}}","codexErrorInfo":"other"}`:                                       event.CodeBadRequest,
		`{"message":"Incomplete response returned, reason: max_output_tokens","codexErrorInfo":"other"}`:                   event.CodeMaxTokens,
		"{\"message\":\"Missing environment variable: `KEY`.\",\"codexErrorInfo\":\"other\"}":                              event.CodeAuth,
		`{"message":"m","codexErrorInfo":["?"]}`:                                                                           event.CodeAgentError,
		`{"message":"m"}`:                                                                                                  event.CodeAgentError,
	} {
		var e turnError
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		said := strings.TrimSuffix(strings.TrimPrefix(e.Message, `{"error": {"message": "`), `"}}`) // the body's own words
		if got := wentWrong(&e); got.Code != want || got.Message != said {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
}

func TestRateLimitsAreToldWhenTheyAreCrossed(t *testing.T) {
	t.Parallel()
	m := quietMapper()
	m.mine().turn = "turn-1"
	var codes []string
	for _, used := range []int{10, 81, 85, 96, 100, 100, 5, 82} {
		for _, f := range m.limits(&rateLimits{Primary: &rateWindow{UsedPercent: used, Minutes: 300}}) {
			codes = append(codes, f.Notice.Level)
		}
	}
	if got := strings.Join(codes, " "); got != "info warning error info" {
		t.Error(got)
	}
}

func FuzzRecords(f *testing.F) {
	in, err := os.ReadFile("testdata/turns.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(in)) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"thread-1"}}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		m := quietMapper(t.TempDir())
		mapped(m, []byte(`{"method":"turn/started","params":{"threadId":"thread-1","turn":{"id":"turn-1"}}}`))
		for range 2 {
			for _, fr := range mapped(m, record) {
				if fr.Kind == "" || fr.Kind == agent.TurnEnd || fr.Request != "" {
					t.Errorf("frame %+v", fr)
				}
			}
		}
		if _, err := decode(record); err == nil && !json.Valid(record) {
			t.Error("decoded what is no JSON")
		}
		patched(string(record), string(record))
		shellLine(string(record))
	})
}

func TestAMessageMustBeOne(t *testing.T) {
	t.Parallel()
	for _, record := range []string{`{}`, `{"id":null}`, `{"id":"` + strings.Repeat("x", 100) + `"}`} {
		if m, err := decode([]byte(record)); err == nil && len(m.ID) > 0 || err != nil && !errors.Is(err, errNoMessage) {
			t.Errorf("%.40s: %+v, %v", record, m, err)
		}
	}
}

// BenchmarkMap maps the lines of some turns, three in four of them deltas.
func BenchmarkMap(b *testing.B) {
	in, err := os.ReadFile("testdata/turns.txt")
	if err != nil {
		b.Fatal(err)
	}
	var lines [][]byte
	for line := range strings.Lines(string(in)) {
		if line[0] == '{' {
			lines = append(lines, []byte(line))
		}
	}
	delta := []byte(`{"method":"item/agentMessage/delta","params":{"threadId":"thread-1","turnId":"turn-1","itemId":"m1","delta":"bravo "},"emittedAtMs":1796002046246}`)
	for range 3 * len(lines) {
		lines = append(lines, delta)
	}
	m := quietMapper()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		mapped(m, lines[i%len(lines)])
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
