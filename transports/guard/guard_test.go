package guard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func request(host string, origins ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = host
	for _, o := range origins {
		r.Header.Add("Origin", o)
	}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4100}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
}

func TestHosts(t *testing.T) {
	t.Parallel()
	rule := Hosts("gate.example:4100", "tunnel.example")
	for host, pass := range map[string]bool{
		"127.0.0.1:4100":            true,
		"127.8.9.1:4100":            true,
		"localhost:4100":            true,
		"LocalHost:4100":            true,
		"[::1]:4100":                true,
		"[::ffff:127.0.0.1]:4100":   true,
		"gate.example:4100":         true,
		"tunnel.example":            true,
		"tunnel.example:8443":       true,
		"":                          false,
		"localhost":                 false,
		"localhost:4101":            false,
		"127.0.0.1":                 false,
		"gate.example":              false,
		"gate.example:1":            false,
		"evil.example:4100":         false,
		"localhost.evil:4100":       false,
		"127.0.0.1.evil.test:4100":  false,
		"10.0.0.1:4100":             false,
		"0.0.0.0:4100":              false,
		"[::]:4100":                 false,
		"[::1%25eth0]:4100":         false,
		"2130706433:4100":           false,
		"127.0.0.1:4100, localhost": false,
	} {
		if got := rule.Check(request(host)); (got == nil) != pass {
			t.Errorf("host %q: %v", host, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	rule := Origins("https://app.example", "vscode-file://vscode-app")
	for _, tc := range []struct {
		origins []string
		pass    bool
	}{
		{nil, true},
		{[]string{"http://localhost:4100"}, true},
		{[]string{"https://app.example"}, true},
		{[]string{"HTTPS://APP.example"}, true},
		{[]string{"vscode-file://vscode-app"}, true},
		{[]string{""}, false},
		{[]string{"null"}, false},
		{[]string{"http://localhost:4101"}, false},
		{[]string{"http://127.0.0.1:4100"}, false},
		{[]string{"ftp://localhost:4100"}, false},
		{[]string{"http://app.example"}, false},
		{[]string{"https://app.example.evil.test"}, false},
		{[]string{"https://app.example:444"}, false},
		{[]string{"https://app.example", "https://app.example"}, false},
	} {
		if got := rule.Check(request("localhost:4100", tc.origins...)); (got == nil) != tc.pass {
			t.Errorf("origins %q: %v", tc.origins, got)
		}
	}
}

func TestRefusalNamesRuleAndValue(t *testing.T) {
	t.Parallel()
	both := All(Hosts(), Origins())
	r := both.Check(request("evil.example", "http://evil.example"))
	if r == nil || r.Kind != Host || r.Value != "evil.example" || !strings.Contains(r.Error(), "allowed_hosts") {
		t.Fatalf("got %v", r)
	}
	r = both.Check(request("localhost:4100", "http://evil.example"))
	if r == nil || r.Kind != Origin || r.Value != "http://evil.example" || !strings.Contains(r.Error(), "allowed_origins") {
		t.Fatalf("got %v", r)
	}
	if r = both.Check(request(strings.Repeat("x", 10_000))); len(r.Error()) > 500 {
		t.Fatalf("refusal of %d bytes", len(r.Error()))
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for header, pass := range map[string]bool{
		"Bearer s3cret": true, "bearer s3cret": true, "Bearer  s3cret ": true,
		"": false, "Bearer": false, "Bearer ": false, "Bearer s3cre": false, "Bearer s3crett": false, "Basic s3cret": false, "s3cret": false,
	} {
		r := request("localhost:4100")
		r.Header.Set("Authorization", header)
		got := Bearer("s3cret").Check(r)
		if (got == nil) != pass {
			t.Errorf("%q: %v", header, got)
		}
		if got != nil && strings.Contains(got.Error(), "s3cre") {
			t.Errorf("%q: the refusal shows a token: %v", header, got)
		}
	}
	if TokenEqual("", "") {
		t.Error("an empty token must never be right")
	}
}

func TestTokenIsMadeOnceWhoeverRaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	tokens := make([]string, 16)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			var err error
			if tokens[i], err = LoadOrCreateToken(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tok := range tokens {
		if tok != tokens[0] || len(tok) < 40 {
			t.Fatalf("tokens differ or are short: %q %q", tok, tokens[0])
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Fatalf("files left behind: %v", left)
	}
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(" mine \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if tok, err := LoadOrCreateToken(path); err != nil || tok != "mine" {
		t.Fatalf("%q, %v", tok, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Fatalf("still readable by others: %v", info.Mode())
	}
	if err := os.WriteFile(path, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateToken(path); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Fatalf("empty file: %v", err)
	}
}
