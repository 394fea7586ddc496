package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A limit on the size of the gateway's files stands for the end of the disk.
func TestAFullDiskIsToldEverywhereAndIsOverOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start()
	status, err := h.console().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session := h.session()
	h.prompt(session, "say before")
	h.until(session, "end", turnEnded)

	var before unix.Rlimit
	if err := unix.Prlimit(status.PID, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(l unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(status.PID, unix.RLIMIT_FSIZE, &l, nil); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(h.place.Home, "polyhost.db"))
	if err != nil {
		t.Fatal(err)
	}
	limit(unix.Rlimit{Cur: uint64(info.Size()), Max: before.Max})
	long := fmt.Sprintf(`{"sessionId":%q,"text":"say %s"}`, session, strings.Repeat("x", 100_000))
	eventually(t, "a prompt is refused", func() bool { return h.run("call", "snowpea", "session.prompt", long).code != 0 })

	health := func(want int) {
		t.Helper()
		for name, path := range map[string]string{"console": "healthz", "zidane": "/healthz", "bae": "/healthz", "snowpea": "/health", "cognitio": "/global/health"} {
			code, body := h.get(name, path)
			if code != want || want != http.StatusOK && !strings.Contains(body, "nothing can be stored: ") {
				t.Errorf("%s: %d %s", name, code, body)
			}
		}
	}
	health(http.StatusServiceUnavailable)
	if s := h.ok("status"); !strings.Contains(s, "nothing can be stored") {
		t.Errorf("status does not tell: %s", s)
	}
	if o := h.run("doctor"); o.code == 0 || !strings.Contains(o.stdout, "nothing can be stored") {
		t.Errorf("doctor does not tell: %s", o.stdout)
	}
	if log := h.log(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "file too large") {
		t.Errorf("the log does not tell: %s", log)
	}

	limit(before)
	health(http.StatusOK)
	h.ok("call", "snowpea", "session.prompt", long)
	if s := h.ok("status"); strings.Contains(s, "nothing can be stored") {
		t.Errorf("status, once there is room: %s", s)
	}
	h.stop()
}

// get asks a front over HTTP, with the password where there is one.
func (h *home) get(front, path string) (code int, body string) {
	h.t.Helper()
	at := h.at[front]
	url := strings.TrimRight(strings.TrimSuffix(strings.Replace(at["url"], "ws://", "http://", 1), "/ws"), "/") + "/" + strings.TrimLeft(path, "/")
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if at["password"] != "" {
		r.SetBasicAuth(at["username"], at["password"])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
