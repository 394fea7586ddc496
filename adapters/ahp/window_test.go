package ahp

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// keeping has the demo agent keep its conversations in a folder.
func keeping(dir string) func(*host.Options) {
	return func(o *host.Options) { o.Backends[0].Backend.(*demo.Backend).Keep = dir }
}

func pathOf(t *testing.T, uri any) string {
	t.Helper()
	path, err := filePath(uri.(string))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheWindowFindsTheAgentsOwnRecord(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	g := newGateway(t, keeping(kept))
	p := g.connect("one")
	chat := p.session(g, sess)
	ask := func(extra object) object {
		params := object{"session": sess}
		for k, v := range extra {
			params[k] = v
		}
		return p.call("vscode/getAgentHostSessionStateFile", params)
	}
	if r := ask(nil); len(r) != 0 {
		t.Errorf("before anything was kept: %v", r)
	}
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	want := ask(nil)["resource"]
	if path := pathOf(t, want); filepath.Dir(path) != kept {
		t.Errorf("the record is in %s", path)
	}
	if got := ask(object{"chat": chat})["resource"]; got != want {
		t.Errorf("of the chat: %v, want %v", got, want)
	}
	if p.call("resourceRead", object{"uri": want})["data"] == "" {
		t.Error("the record is empty")
	}
	other := "ahp-chat:/other"
	p.call("createChat", object{"channel": sess, "chat": other})
	if r := ask(object{"chat": other}); len(r) != 0 {
		t.Errorf("of a chat that nobody spoke in: %v", r)
	}
	p.fails(-32602, "vscode/getAgentHostSessionStateFile", object{"session": sess, "chat": "ahp-chat:/none"})
	p.fails(-32602, "vscode/getAgentHostSessionStateFile", object{})
	p.fails(-32001, "vscode/getAgentHostSessionStateFile", object{"session": "demo:/none"})
	p.fails(-32001, "vscode/getAgentHostSessionStateFile", object{"session": chat})
}

func TestAnAgentThatKeepsNothingHasNoRecord(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	if r := p.call("vscode/getAgentHostSessionStateFile", object{"session": sess}); len(r) != 0 {
		t.Errorf("got %v", r)
	}
}

func TestLogsAreCollectedAndReadInPieces(t *testing.T) {
	t.Parallel()
	g := newGateway(t, keeping(t.TempDir()))
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	made := p.call("vscode/collectAgentHostDebugLogs", object{"session": sess, "chat": chat, "kind": "archive"})
	if made["kind"] != "archive" || made["providerLogsIncluded"] != true {
		t.Errorf("collected %v", made)
	}
	var archive []byte
	for eof := false; !eof; {
		piece := p.call("vscode/readAgentHostDebugLogsChunk", object{"resource": made["resource"], "position": len(archive)})
		data, err := base64.StdEncoding.DecodeString(piece["data"].(string))
		if err != nil {
			t.Fatal(err)
		}
		archive, eof = append(archive, data...), piece["eof"].(bool)
	}
	if float64(len(archive)) != made["size"] {
		t.Errorf("read %d bytes of %v", len(archive), made["size"])
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	texts, whole := map[string]string{}, 0
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = string(text)
		whole += len(text)
	}
	if len(texts) != 2 || !strings.Contains(texts["agenthost/polyhost.log"], "A client connected") || !strings.Contains(texts["events.jsonl"], "hello") {
		t.Errorf("the archive has %v", texts)
	}
	if float64(whole) != made["uncompressedSize"] || len(made["entries"].([]any)) != 2 {
		t.Errorf("%d bytes were packed: %v", whole, made)
	}
	if r := p.call("vscode/readAgentHostDebugLogsChunk", object{"resource": made["resource"], "position": 1 << 50}); r["data"] != "" || r["eof"] != true {
		t.Errorf("behind the end: %v", r)
	}

	folder := p.call("vscode/collectAgentHostDebugLogs", object{"kind": "directory"})
	if folder["providerLogsIncluded"] != false || folder["size"] != folder["uncompressedSize"] || len(folder["entries"].([]any)) != 1 {
		t.Errorf("collected %v", folder)
	}
	log := folder["resource"].(string) + "/agenthost/polyhost.log"
	if text, _ := p.call("resourceRead", object{"uri": log})["data"].(string); !strings.Contains(text, "A client connected") {
		t.Errorf("the log is %q", text)
	}
	const read = "vscode/readAgentHostDebugLogsChunk"
	for _, bad := range []object{{"resource": folder["resource"], "position": 0}, {"resource": "file:///etc/passwd", "position": 0},
		{"resource": made["resource"], "position": -1}, {"resource": made["resource"]}, {"position": 0}} {
		p.fails(-32602, read, bad)
	}
	for _, bad := range []object{{}, {"kind": "tape"}, {"kind": "archive", "chat": chat}} {
		p.fails(-32602, "vscode/collectAgentHostDebugLogs", bad)
	}
	p.fails(-32001, "vscode/collectAgentHostDebugLogs", object{"kind": "archive", "session": "demo:/none"})

	for range maxBundles - 1 {
		p.call("vscode/collectAgentHostDebugLogs", object{"kind": "directory"})
	}
	p.fails(-32602, read, object{"resource": made["resource"], "position": 0}) // the oldest went
	g.stop()
	if _, err := os.Stat(pathOf(t, folder["resource"])); !os.IsNotExist(err) {
		t.Errorf("what was collected is still there: %v", err)
	}
}

func TestNetworkDiagnostics(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	info := p.call("getNetworkDiagnosticsInfo", nil)
	if info["version"] != "test" || info["os"] == "" || info["arch"] == "" || info["proxySettings"] == nil || info["proxyEnv"] == nil ||
		!strings.Contains(show(info), `{"name":"GitHub API","url":"https://api.github.com"}`) {
		t.Errorf("it says %v", info)
	}
	if f := p.request("getManagedSettingsDiagnostics", nil); len(f["result"].([]any)) != 0 {
		t.Errorf("managed settings: %v", f)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, strings.Repeat("x", maxDiagnosedBody+1))
	}))
	defer web.Close()
	got := p.call("diagnosticsFetch", object{"url": web.URL})
	dns, _ := got["dnsIpv4"].(object)
	body, _ := got["body"].(string)
	if got["url"] != web.URL || got["statusCode"] != 401.0 || got["statusMessage"] != "Unauthorized" || len(body) != maxDiagnosedBody || dns["address"] != "127.0.0.1" {
		t.Errorf("it fetched %.300v", got)
	}
	if dns, _ := got["dnsIpv6"].(object); dns["error"] == nil {
		t.Errorf("it found %v for an address that is none of IPv6", dns)
	}
	web.Close()
	if got := p.call("diagnosticsFetch", object{"url": web.URL}); got["error"] == nil || got["statusCode"] != nil {
		t.Errorf("of a server that is gone: %v", got)
	}
	for _, bad := range []string{"", "file:///etc/passwd", "http://", "https://user:secret@example.invalid/", "ftp://x/", "http://" + strings.Repeat("x", maxDiagnosedURL)} {
		p.fails(-32602, "diagnosticsFetch", object{"url": bad})
	}
}

func TestAProxysPasswordIsNotTold(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"http://me:pass@proxy:3128/": "http://proxy:3128/", "me:p@ss@proxy:3128": "proxy:3128",
		"proxy:3128": "proxy:3128", "localhost,.example.org": "localhost,.example.org"} {
		if got := withoutSecret(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestAClientMayStopTheGateway(t *testing.T) {
	t.Parallel()
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New()}
	asked := make(chan struct{})
	g.shutdown = func() { close(asked) }
	g.start()
	p := g.connect("one")
	if r := p.call("shutdown", nil); len(r) != 0 {
		t.Errorf("answered %v", r)
	}
	<-asked
	still := newGateway(t).connect("two")
	still.fails(-32601, "shutdown", nil)
}

// What the window says that no protocol has does no harm.
func TestTheWindowsOwnWordsDoNoHarm(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	p.send(object{"jsonrpc": "2.0", "method": "setClientManagedSettingsPermissions", "params": object{"permissions": object{}}})
	p.call("listSessions", object{"channel": rootURI})
	p.fails(-32601, "setClientManagedSettingsPermissions", object{"permissions": object{}})
	p.fails(-32601, "vscode/noSuchThing", object{})
	seen, _ := p.hangUp()
	back := g.dial("one")
	res := back.call("reconnect", object{"clientId": "one", "lastSeenServerSeq": seen, "subscriptions": []string{rootURI},
		"_meta": object{"vscode.telemetryLevel": "off", "vscode.clientConnectionKind": "remote_extension_host"}})
	if res["type"] != "replay" {
		t.Errorf("reconnect without a channel is answered by %v", res)
	}
}
