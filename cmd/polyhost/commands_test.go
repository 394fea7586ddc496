package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/doctor"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

func TestTheOperatorSeesWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	s := h.session()
	h.prompt(s, "say hello\nrun touch never")
	h.until(s, "approval", approvalOpened)

	status := read[console.Status](h, "status", "--json")
	if status.Pending.Approvals != 1 || status.Sessions.ByStatus[host.AwaitingApproval] != 1 || len(status.Processes) == 0 {
		t.Errorf("status is %+v", status)
	}
	if text := h.ok("status"); !strings.Contains(text, "1 approvals") || !strings.Contains(text, "front snowpea") {
		t.Errorf("status says\n%s", text)
	}
	if o := h.run("call", "snowpea", "session.list", "{"); o.code != 1 || !strings.Contains(o.stderr, "the parameters of session.list are not JSON") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
	list := read[[]console.Session](h, "sessions", "--json")
	if len(list) != 1 || list[0].ID.String() != s || list[0].Status != host.AwaitingApproval || list[0].Pending.Approvals != 1 {
		t.Errorf("sessions are %+v", list)
	}
	if text := h.ok("sessions"); !strings.Contains(text, s) || !strings.Contains(text, "awaiting approval") {
		t.Errorf("sessions says\n%s", text)
	}
}

func TestTailShowsASessionFromAnyEvent(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	s := h.session()
	h.prompt(s, "say one two")
	all := h.until(s, "end", turnEnded)

	var seqs []uint64
	for line := range strings.Lines(h.ok("tail", s, "--json", "--follow=false", "--after", "2")) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		seqs = append(seqs, e.Seq)
	}
	var want []uint64
	for _, e := range all[2:] {
		want = append(want, e.Seq)
	}
	if !slices.Equal(seqs, want) {
		t.Errorf("events %v, want %v", seqs, want)
	}
	if text := h.ok("tail", s[:len(s)-4], "--follow=false"); !strings.Contains(text, "turn.started") || !strings.Contains(text, "say one two") {
		t.Errorf("tail says\n%s", text)
	}
	if o := h.run("tail", "ffff"); o.code != 1 || !strings.Contains(o.stderr, "no session ffff") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
}

func TestRotatedKeysReplaceTheOldOnes(t *testing.T) {
	t.Parallel()
	h := newHome(t, "--fronts=bae,cognitio")
	h.start()
	type kept struct{ bae, cognitio string }
	shown := func() kept {
		return kept{strings.TrimSpace(h.ok("keys", "bae", "client_key")), strings.TrimSpace(h.ok("keys", "cognitio", "password"))}
	}
	status := func(set func(*http.Request), method, url string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		set(r)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	check := func(k kept, want int) {
		t.Helper()
		got := status(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+k.bae) }, http.MethodPost, h.at["bae"]["url"]+"/api/v1/sessions")
		if good := got/100 == 2; good != (want == 200) {
			t.Errorf("bae answers %d, want %d", got, want)
		}
		got = status(func(r *http.Request) { r.SetBasicAuth("cognitio", k.cognitio) }, http.MethodGet, h.at["cognitio"]["url"]+"/session")
		if got != want {
			t.Errorf("cognitio answers %d, want %d", got, want)
		}
	}
	old := shown()
	check(old, 200)
	if text := h.ok("keys", "rotate", "bae", "cognitio"); !strings.Contains(text, "until it is started again") {
		t.Errorf("rotate says %s", text)
	}
	check(old, 200)
	h.stop()
	h.start()
	check(old, 401)
	check(shown(), 200)
	if o := h.run("keys", "rotate", "nosuch"); o.code != 1 {
		t.Errorf("exit code %d", o.code)
	}
	for _, k := range read[[]frontKeys](h, "keys", "--json") {
		if info, err := os.Stat(k.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", k.File, info, err)
		}
	}
	if strings.Contains(h.log(), old.bae) || strings.Contains(h.log(), shown().cognitio) {
		t.Error("a secret is in the log")
	}
}

func TestDoctorFindsWhatIsWrongAndSaysHowToMendIt(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	for _, f := range read[[]doctor.Finding](h, "doctor", "--json") {
		if f.State == doctor.Wrong {
			t.Errorf("a running gateway: %+v", f)
		}
	}
	h.kill()
	eventually(t, "all processes are gone", func() bool { return len(h.processes()) == 0 })
	if err := os.Chmod(h.place.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(h.place.Home, "plugins", "polyhost-agent-odd")
	if err := os.MkdirAll(filepath.Dir(plugin), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.place.Home, "users.json"), []byte(`{"users":[],"more":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	o := h.run("doctor", "--json", "--port-base", "0")
	if o.code != 1 {
		t.Errorf("exit code %d", o.code)
	}
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(o.stdout), &findings); err != nil {
		t.Fatal(err)
	}
	for check, want := range map[string]struct {
		state        doctor.State
		detail, mend string
	}{
		"home":      {doctor.Wrong, "open to other users", "chmod 700"},
		"secrets":   {doctor.Wrong, "users.json is open", "chmod 600"},
		"people":    {doctor.Wrong, "nobody can sign in", "users.json"},
		"plugins":   {doctor.Wrong, "not pinned", "config.toml"},
		"endpoints": {doctor.Wary, "killed", "rm "},
		"agent":     {doctor.Good, "demo", ""},
		"store":     {doctor.Good, "readable", ""},
		"disk":      {"", "synced write", ""},
	} {
		i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == check })
		if i < 0 {
			t.Errorf("nothing about %s", check)
			continue
		}
		f := findings[i]
		if want.state != "" && f.State != want.state || !strings.Contains(f.Detail, want.detail) || !strings.Contains(f.Fix, want.mend) {
			t.Errorf("%s: %+v, want %+v", check, f, want)
		}
	}
}

func TestCommandsWithoutAGatewaySaySo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, command := range []string{"status", "sessions", "keys"} {
		if o := h.run(command); o.code != 1 || !strings.Contains(o.stderr, "polyhost serve") {
			t.Errorf("%s: exit code %d, %s", command, o.code, o.stderr)
		}
	}
	if v := read[map[string]string](h, "version", "--json"); v["version"] == "" || v["go"] == "" {
		t.Errorf("version is %v", v)
	}
	if o := h.run("nosuch"); o.code != 1 || !strings.Contains(o.stderr, "unknown command") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
}

func TestAnUnknownSettingIsRefusedByName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.MkdirAll(h.place.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.place.Home, "config.toml"), []byte("log_levl = \"debug\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := h.run("serve", "--port-base", "0"); o.code != 1 || !strings.Contains(o.stderr, "unknown setting log_levl") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
	if o := h.run("doctor"); o.code != 1 || !strings.Contains(o.stdout, "unknown setting log_levl") || !strings.Contains(o.stdout, "--home "+h.place.Home+" config defaults") {
		t.Errorf("exit code %d, %s", o.code, o.stdout)
	}
}
