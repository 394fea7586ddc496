package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Log checks the frames of one connection. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	asked map[any]string // the methods of the client's requests, by id
}

// Sent takes note of what the client sends: an answer is judged by its question.
func (l *Log) Sent(frame []byte) {
	var f struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	if json.Unmarshal(frame, &f) != nil || f.ID == nil || f.Method == "" {
		return
	}
	switch f.ID.(type) {
	case string, float64:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked == nil {
			l.asked = map[any]string{}
		}
		l.asked[f.ID] = f.Method
	}
}

// Received judges a frame of the host.
func (l *Log) Received(frame []byte) error {
	var f map[string]any
	if err := json.Unmarshal(frame, &f); err != nil {
		return err
	}
	if f["jsonrpc"] != "2.0" {
		return errors.New("jsonrpc is not 2.0")
	}
	method, isCall := f["method"].(string)
	id, hasID := f["id"]
	allowed := "jsonrpc id method params"
	if !isCall {
		allowed = "jsonrpc id result error"
	}
	for k := range f {
		if !strings.Contains(" "+allowed+" ", " "+k+" ") {
			return fmt.Errorf("the frame has a key %q", k)
		}
	}
	switch {
	case isCall && hasID:
		return request(method, f["params"])
	case isCall:
		return notification(method, f["params"])
	case !hasID:
		return errors.New("the frame has neither a method nor an id")
	}
	result, hasResult := f["result"]
	problem, hasError := f["error"]
	if hasResult == hasError {
		return errors.New("an answer has either a result or an error")
	}
	if hasError {
		return failure(problem)
	}
	l.mu.Lock()
	asked := l.asked[id]
	l.mu.Unlock()
	if err := answer(asked, result); err != nil {
		return fmt.Errorf("answer to %s: %w", asked, err)
	}
	return nil
}

// request judges a question of the host: of the resource methods alone.
func request(method string, params any) error {
	switch method {
	case "createResourceWatch", "resourceCopy", "resourceDelete", "resourceList", "resourceMkdir", "resourceMove", "resourceRead",
		"resourceRequest", "resourceResolve", "resourceWrite":
		return Shape(strings.ToUpper(method[:1])+method[1:]+"Params", params)
	}
	if fields, known := windows[method]; known {
		return texts(fields, params)
	}
	return fmt.Errorf("a host does not ask for %q", method)
}

// windows are what a host asks and tells VS Code's window beside the protocol, with
// the keys of the parameters: all are texts.
var windows = map[string]string{
	"vscode/requestWorkspaceTrust":         "workspace",
	"vscode/devContainers/relayMessage":    "connectionId data",
	"vscode/devContainers/output":          "connectionId data",
	"vscode/devContainers/relayClose":      "connectionId",
	"vscode/devContainers/closeConnection": "connectionId",
}

func texts(fields string, params any) error {
	m, _ := params.(map[string]any)
	names := strings.Fields(fields)
	for _, name := range names {
		if _, ok := m[name].(string); !ok {
			return fmt.Errorf("%s has no text %s", show(params), name)
		}
	}
	if len(m) != len(names) {
		return fmt.Errorf("%s has more than %s", show(params), fields)
	}
	return nil
}

var notifications = map[string]string{
	"root/sessionAdded":          "SessionAddedParams",
	"root/sessionRemoved":        "SessionRemovedParams",
	"root/sessionSummaryChanged": "SessionSummaryChangedParams",
	"root/progress":              "ProgressParams",
	"auth/required":              "AuthRequiredParams",
	"otlp/exportLogs":            "OtlpExportLogsParams",
	"otlp/exportTraces":          "OtlpExportTracesParams",
	"otlp/exportMetrics":         "OtlpExportMetricsParams",
}

func notification(method string, params any) error {
	if method == "action" {
		return Envelope(params)
	}
	if fields, known := windows[method]; known && method != "vscode/requestWorkspaceTrust" {
		return texts(fields, params)
	}
	name, declared := notifications[method]
	if !declared {
		return fmt.Errorf("a host does not say %q", method)
	}
	return Shape(name, params)
}

// Envelope judges an action with its channel and number. One that is refused is
// the client's own and judged by its envelope alone.
func Envelope(v any) error {
	if err := Shape("ActionEnvelope", v); err != nil {
		return err
	}
	env := v.(map[string]any)
	if env["rejectionReason"] != nil {
		return nil
	}
	if err := Shape("StateAction", env["action"]); err != nil {
		return err
	}
	typ := env["action"].(map[string]any)["type"].(string)
	kind, _, _ := strings.Cut(typ, "/")
	if on := Kind(env["channel"].(string)); on != kind && !(on == "chat" && typ == renamesChats) {
		return fmt.Errorf("%s is said on %v, which is a %s channel", typ, env["channel"], on)
	}
	return nil
}

// renamesChats is what editors say on a chat's channel to rename it, as chats
// have no such action of their own.
const renamesChats = "session/titleChanged"

// Kind is what sort of channel a URI names, as the prefix of its actions.
func Kind(uri string) string {
	scheme, path, _ := strings.Cut(uri, ":")
	switch scheme {
	case "ahp-root":
		return "root"
	case "ahp-chat":
		return "chat"
	case "ahp-changeset":
		return "changeset"
	case "ahp-terminal":
		return "terminal"
	case "ahp-resource-watch":
		return "resourceWatch"
	case "ahp-automations":
		return "automation"
	case "ahp-automation-run":
		return "automationRun"
	case "ahp-canvas":
		return "canvas"
	}
	switch {
	case strings.HasSuffix(path, "/annotations"):
		return "annotations"
	case strings.Contains(path, "/changeset/"):
		return "changeset"
	}
	return "session"
}

var states = map[string]string{"root": "RootState", "session": "SessionState", "chat": "ChatState", "terminal": "TerminalState",
	"changeset": "ChangesetState", "annotations": "AnnotationsState", "resourceWatch": "ResourceWatchState", "automation": "AutomationState",
	"automationRun": "AutomationRunState", "canvas": "CanvasState"}

// Snapshot judges a snapshot and the state in it, by its channel.
func Snapshot(v any) error {
	if err := Shape("Snapshot", v); err != nil {
		return err
	}
	s := v.(map[string]any)
	return Shape(states[Kind(s["resource"].(string))], s["state"])
}

// answer judges the result of a client's request. Of requests that the protocol
// does not have nothing is known.
func answer(method string, result any) error {
	switch method {
	case "ping", "createSession", "disposeSession", "createChat", "disposeChat", "createTerminal", "disposeTerminal":
		if result != nil {
			return fmt.Errorf("%s is not null", show(result))
		}
		return nil
	case "":
		return errors.New("nothing was asked by that id")
	}
	name := strings.ToUpper(method[:1]) + method[1:] + "Result"
	if method == "reconnect" {
		name = "ReconnectReplayResult"
		if o, ok := result.(map[string]any); ok && o["type"] == "snapshot" {
			name = "ReconnectSnapshotResult"
		}
	}
	if shapes[name] == nil {
		return nil
	}
	if err := Shape(name, result); err != nil {
		return err
	}
	o := result.(map[string]any)
	snapshots, _ := o["snapshots"].([]any)
	if s, ok := o["snapshot"]; ok {
		snapshots = append(snapshots, s)
	}
	for _, s := range snapshots {
		if err := Snapshot(s); err != nil {
			return err
		}
	}
	actions, _ := o["actions"].([]any)
	for _, a := range actions {
		if err := Envelope(a); err != nil {
			return err
		}
	}
	return nil
}

// details are the shapes of what comes with an error; true: always.
var details = map[float64]struct {
	name string
	must bool
}{
	-32005: {"UnsupportedProtocolVersionErrorData", true},
	-32007: {"AuthRequiredErrorData", true},
	-32009: {"PermissionDeniedErrorData", false},
}

func failure(v any) error {
	e, _ := v.(map[string]any)
	code, isNumber := e["code"].(float64)
	if message, ok := e["message"].(string); !ok || message == "" || !isNumber {
		return fmt.Errorf("%s is no error", show(v))
	}
	for k := range e {
		if k != "code" && k != "message" && k != "data" {
			return fmt.Errorf("the error has a key %q", k)
		}
	}
	data, there := e["data"]
	d, declared := details[code]
	switch {
	case there && data == nil:
		return errors.New("the error's data is null")
	case declared && (there || d.must):
		return Shape(d.name, data)
	}
	return nil
}
