package cognitio

import (
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"

	"github.com/go-chi/chi/v5"
)

func TestSurfaceIsTheWholeDocument(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for path, methods := range protocol(t).Paths {
		for method, op := range methods {
			want[op.OperationID+" "+strings.ToUpper(method)+" "+path] = true
		}
	}
	beside := 0
	for _, op := range surface {
		name := op.id + " " + op.method + " " + op.path
		if !want[name] {
			beside++
		}
		delete(want, name)
		if op.serve != nil && op.stream != nil {
			t.Errorf("%s is served twice", op.id)
		}
	}
	if len(want) > 0 || beside != 2 {
		t.Errorf("%d operations beside the document; missing: %v", beside, want)
	}
}

// What bounds a request would cut a stream: the routes are walked to see that
// none got the other's middleware.
func TestStreamsHaveNoTimeoutAndNoCompression(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	streams := map[string]bool{}
	for _, op := range surface {
		if op.stream != nil {
			streams[op.method+" "+op.path] = true
		}
	}
	seen := 0
	err := chi.Walk(g.f.router().(chi.Routes), func(method, route string, _ http.Handler, mws ...func(http.Handler) http.Handler) error {
		var names []string
		for _, m := range mws {
			names = append(names, runtime.FuncForPC(reflect.ValueOf(m).Pointer()).Name())
		}
		all := strings.Join(names, " ")
		bounds := strings.Contains(all, "bounded") && strings.Contains(all, "Compress")
		if streams[method+" "+route] == bounds || !strings.Contains(all, "door") {
			return fmt.Errorf("%s %s goes through %s", method, route, all)
		}
		seen++
		return nil
	})
	if err != nil || seen < len(surface) {
		t.Errorf("%d routes: %v", seen, err)
	}
}

// Every answer of an operation that only reads is what the document promises.
func TestAnswersHaveTheDocumentsShape(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	events := g.listen("/event")
	g.prompt(ses, "say hello\nwrite a.txt text\nplan x; y")
	events.idle(ses)
	if err := os.WriteFile(g.dir+"/b.bin", []byte{0, 1, 2}, 0o600); err != nil {
		t.Fatal(err)
	}
	query := map[string]string{"/file": "?path=.", "/file/content": "?path=b.bin", "/find/file": "?query=a", "/find/symbol": "?query=a",
		"/experimental/tool": "?provider=demo&model=demo-small"}
	s := protocol(t)
	for _, op := range surface {
		if op.method != "GET" || op.serve == nil || s.response(op.id) == nil {
			continue
		}
		path := strings.ReplaceAll(op.path, "{sessionID}", ses) + query[op.path]
		if strings.Contains(path, "{messageID}") {
			list := g.must("GET", "/session/"+ses+"/message", nil).([]any)
			path = strings.ReplaceAll(path, "{messageID}", list[0].(map[string]any)["info"].(map[string]any)["id"].(string))
		}
		status, answer := g.do("GET", path, nil)
		if status != 200 {
			t.Errorf("%s: %d %v", path, status, answer)
			continue
		}
		if err := s.valid(s.response(op.id), answer, ""); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	created := g.must("POST", "/session", map[string]any{})
	if err := s.valid(s.response("session.create"), created, ""); err != nil {
		t.Error(err)
	}
	answer := g.must("POST", "/session/"+ses+"/message", say("say done"))
	if err := s.valid(s.response("session.prompt"), answer, ""); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotServedAnswersInJSON(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, op := range surface {
		if op.serve != nil || op.stream != nil {
			continue
		}
		path := regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(op.path, "x")
		status, answer := g.do(op.method, path, map[string]any{})
		if status != 501 || answer.(map[string]any)["name"] != "NotImplementedError" {
			t.Errorf("%s %s: %d %v", op.method, path, status, answer)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/no/such/path", 404}, {"GET", "/", 404}, {"GET", "/api/model", 404}, {"PUT", "/session", 405}, {"POST", "/event", 405}} {
		status, answer := g.do(c.method, c.path, nil)
		if m, ok := answer.(map[string]any); status != c.status || !ok || m["name"] == nil {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, answer)
		}
	}
}

// The table in the docs is made from the surface, so that neither drifts.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	doctest.Table(t, "../../docs/protocols/cognitio.md", "surface", surfaceTable())
}

func surfaceTable() string {
	var served, not []string
	for _, op := range surface {
		row := fmt.Sprintf("| `%s` | `%s %s` |", op.id, op.method, op.path)
		switch {
		case op.stream != nil:
			served = append(served, row+" served, as a stream |")
		case op.serve != nil:
			served = append(served, row+" served |")
		default:
			not = append(not, row+" 501 |")
		}
	}
	return fmt.Sprintf("%d operations, %d served.\n\n| operation | request | |\n| --- | --- | --- |\n%s\n", len(surface), len(served), strings.Join(slices.Concat(served, not), "\n"))
}
