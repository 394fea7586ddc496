package snowpea

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// command is a slash command that is answered without the agent.
type command struct {
	name, summary, args string
	run                 func(ctx context.Context, x *commandCall) (commandReply, error)
}

// commandCall is one use of a command.
type commandCall struct {
	conn *conn
	s    *host.Session
	chat id.ID
	name string
	args string
}

// commandReply is what a command says and changes. A request, when there is
// one, goes to the agent instead.
type commandReply struct {
	text    string
	update  *event.SessionUpdated
	request string
}

// builtins is filled in by init, because /help lists them.
var builtins []command

func init() {
	builtins = []command{
		{"help", "List the commands", "", runHelp},
		{"tools", "List the tools of this session", "", runTools},
		{"plan", "Switch to plan mode, then do the request", "[request]", runMode},
		{"accept", "Switch to accept mode, then do the request", "[request]", runMode},
		{"auto", "Switch to auto mode, then do the request", "[request]", runMode},
		{"mode", "Show, set or save the mode", "[plan|accept|auto|save|show]", runModeCommand},
		{"busy", "Show or set what a prompt does while a turn runs", "[steer|queue]", runBusy},
		{"approvals", "List the approvals that wait", "[all]", runApprovals},
		{"allow", "Allow commands that match, or a tool, without asking", "<regex>|tool:<name> [--global]", runAllow},
		{"allowlist", "Show the allow-list, or remove an entry", "[remove <id>]", runAllowlist},
		{"model", "Show or choose the model of this session", "[model|inherit]", runModel},
		{"effort", "Show or choose the effort of this session", "[tier|auto]", runEffort},
	}
}

// commandLine takes a line that begins with a slash apart. A slash alone is text.
func commandLine(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(rest, " \t\r\n")
	if end < 0 {
		end = len(rest)
	}
	return rest[:end], strings.TrimSpace(rest[end:]), end > 0
}

// agentCommand reports whether a name is the agent's own and none of ours.
func (f *Front) agentCommand(s *host.Session, name string) bool {
	return builtin(name) == nil && slices.ContainsFunc(f.catalogue(s.State().Info.Backend).Commands,
		func(c agent.Command) bool { return c.Name == name })
}

func builtin(name string) *command {
	for i := range builtins {
		if builtins[i].name == name {
			return &builtins[i]
		}
	}
	return nil
}

// runCommand runs a command as a turn of its own, beside whatever runs.
func (c *conn) runCommand(ctx context.Context, t *track, s *host.Session, chat id.ID, name, args string) (string, error) {
	line := strings.TrimSpace("/" + name + " " + args)
	record := commandRecord{Chat: chat, Turn: id.New(), Line: cut(line, maxNotice)}
	update := &event.SessionUpdated{}
	if cmd := builtin(name); cmd == nil {
		record.Code, record.Message = codeNotFound, fmt.Sprintf("there is no command /%s: try /help", cut(name, 60))
	} else if reply, err := cmd.run(ctx, &commandCall{c, s, chat, name, args}); err != nil {
		record.Code, record.Message = codeInternal, "the command failed"
		if e := publicError(err); e != nil {
			record.Code, record.Message = e.Data.(errorData).Code, e.Message
		} else {
			c.log.Error("A command failed", "command", name, "session", s.ID().String(), "err", err)
		}
	} else if reply.request != "" {
		if err := s.Update(ctx, reply.update); err != nil {
			return "", err
		}
		return c.say(ctx, t, s, host.Prompt{Chat: chat, Text: reply.request, Busy: host.BusyQueue})
	} else {
		record.Text = clip(reply.text, commandTextLimit)
		if reply.update != nil {
			update = reply.update
		}
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return "", err
	}
	update.By = c.actor()
	if update.Meta == nil {
		update.Meta = map[string]json.RawMessage{}
	}
	update.Meta[metaCommand] = raw
	if err := s.Update(ctx, update); err != nil {
		return "", err
	}
	return record.Turn.String(), nil
}

// publicError is an error as clients may see it, or nil.
func publicError(err error) *jsonrpc.Error {
	if e, ok := err.(*jsonrpc.Error); ok {
		return e
	}
	return public(err)
}

// commandOf reads a session's newest command.
func commandOf(meta map[string]json.RawMessage) (commandRecord, bool) {
	var r commandRecord
	raw, ok := meta[metaCommand]
	return r, ok && json.Unmarshal(raw, &r) == nil
}

// clip cuts a text to n bytes at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func runHelp(_ context.Context, x *commandCall) (commandReply, error) {
	var b strings.Builder
	for _, row := range x.conn.front.commandRows(x.s.State().Info.Backend) {
		fmt.Fprintf(&b, "/%s: %s\n", row.Name, row.Summary)
	}
	return commandReply{text: b.String()}, nil
}

func runTools(_ context.Context, x *commandCall) (commandReply, error) {
	st := x.s.State()
	var b strings.Builder
	for _, row := range x.conn.front.toolRows(st.Info.Backend, st.Tools) {
		fmt.Fprintf(&b, "%s (%s): %s\n", row.Name, row.PermissionTag, row.Description)
	}
	if b.Len() == 0 {
		b.WriteString("The agent has not said which tools it has.")
	}
	return commandReply{text: b.String()}, nil
}

// runMode is /plan, /accept and /auto.
func runMode(_ context.Context, x *commandCall) (commandReply, error) {
	return commandReply{text: "The mode is " + x.name + ".", update: modeUpdate(x.conn, x.name), request: x.args}, nil
}

func runModeCommand(_ context.Context, x *commandCall) (commandReply, error) {
	now := modeName(x.s.State().Info.Settings.Mode)
	switch {
	case x.args == "" || x.args == "show":
		return commandReply{text: "The mode is " + now + "."}, nil
	case x.args == "save":
		dir := firstDir(x.s.State().Info.Dirs)
		if _, err := x.conn.front.changeSettings(dir, document{"defaultMode": now}); err != nil {
			return commandReply{}, err
		}
		return commandReply{text: "New sessions in " + dir + " start in mode " + now + "."}, nil
	case slices.Contains(modes, x.args):
		return commandReply{text: "The mode is " + x.args + ".", update: modeUpdate(x.conn, x.args)}, nil
	}
	return commandReply{text: fmt.Sprintf("There is no mode %q: plan, accept or auto.", cut(x.args, 60))}, nil
}

func runBusy(_ context.Context, x *commandCall) (commandReply, error) {
	f := x.conn.front
	switch x.args {
	case "":
	case "steer", "queue":
		if _, err := f.changeSettings("", document{"agent": document{"busy": x.args}}); err != nil {
			return commandReply{}, err
		}
	default:
		return commandReply{text: fmt.Sprintf("There is no policy %q: steer or queue.", cut(x.args, 60))}, nil
	}
	return commandReply{text: "While a turn runs, a prompt is set to " + f.settings.word("agent", "busy", "steer") + "."}, nil
}

func runApprovals(_ context.Context, x *commandCall) (commandReply, error) {
	session := ""
	if x.args != "all" {
		session = x.sessionName()
	}
	var b strings.Builder
	for _, k := range x.conn.front.asks.list(event.Approval, session) {
		fmt.Fprintf(&b, "%s: %s %s (session %s)\n", k.i.ID, k.i.Tool, k.i.Title, k.name)
	}
	return commandReply{text: cmp.Or(b.String(), "No approval waits.")}, nil
}

// sessionName is the session as clients spell it.
func (x *commandCall) sessionName() string {
	if x.chat == x.s.State().Default {
		return x.s.ID().String()
	}
	return x.chat.String()
}

func runAllow(_ context.Context, x *commandCall) (commandReply, error) {
	pattern, global := strings.CutSuffix(x.args, "--global")
	pattern = strings.TrimSpace(pattern)
	if pattern == "" {
		return commandReply{text: "Say what to allow: a regular expression for commands, or tool:<name>."}, nil
	}
	e, err := x.conn.allow(pattern, global, firstDir(x.s.State().Info.Dirs))
	if err != nil {
		if p := publicError(err); p != nil {
			return commandReply{text: p.Message}, nil
		}
		return commandReply{}, err
	}
	return commandReply{text: fmt.Sprintf("Allowed %s (%s, %s).", pattern, e.Scope, e.ID)}, nil
}

func runAllowlist(_ context.Context, x *commandCall) (commandReply, error) {
	list := x.conn.front.host.Allowlist()
	if entry, ok := strings.CutPrefix(x.args, "remove "); ok {
		removed, err := list.Remove(strings.TrimSpace(entry))
		if err != nil {
			return commandReply{}, err
		}
		if !removed {
			return commandReply{text: "There is no such entry."}, nil
		}
		return commandReply{text: "Removed."}, nil
	}
	var b strings.Builder
	for _, e := range list.List(firstDir(x.s.State().Info.Dirs)) {
		fmt.Fprintf(&b, "%s: %s (%s, %s)\n", e.ID, e.Pattern, e.Kind, e.Scope)
	}
	return commandReply{text: cmp.Or(b.String(), "The allow-list is empty.")}, nil
}

func runModel(_ context.Context, x *commandCall) (commandReply, error) {
	info := x.s.State().Info
	const otherwise = "the agent's default"
	switch x.args {
	case "":
		return commandReply{text: "The model is " + cmp.Or(info.Settings.Model, otherwise) + "."}, nil
	case event.Inherit:
		return commandReply{text: "The model is " + otherwise + ".",
			update: &event.SessionUpdated{Settings: &event.Settings{Model: event.Inherit}}}, nil
	}
	model, err := pickModel(x.conn.front.catalogue(info.Backend), info.Backend, x.args)
	if err != nil {
		return commandReply{text: publicError(err).Message}, nil
	}
	return commandReply{text: "The model is " + x.args + ".",
		update: &event.SessionUpdated{Settings: &event.Settings{Model: model}}}, nil
}

func runEffort(_ context.Context, x *commandCall) (commandReply, error) {
	info := x.s.State().Info
	offers := effortsOf(x.conn.front.catalogue(info.Backend), info.Settings.Model)
	pick := x.args
	switch {
	case x.args == "":
		return commandReply{text: "The effort is " + cmp.Or(info.Settings.Effort, "auto") + "."}, nil
	case x.args == "auto":
		pick = event.Inherit
	case !slices.Contains(offers, x.args):
		return commandReply{text: "The model offers these efforts: " + cmp.Or(strings.Join(offers, ", "), "none") + "."}, nil
	}
	return commandReply{text: "The effort is " + x.args + ".",
		update: &event.SessionUpdated{Settings: &event.Settings{Effort: pick}}}, nil
}

type commandRow struct {
	Name       string         `json:"name"`
	Summary    string         `json:"summary"`
	ArgsSchema map[string]any `json:"argsSchema"`
	Source     string         `json:"source"`
}

// commandRows are our own commands and the agent's.
func (f *Front) commandRows(backend string) []commandRow {
	rows := make([]commandRow, 0, len(builtins))
	for _, c := range builtins {
		rows = append(rows, commandRow{c.name, c.summary, argsSchema(c.args), "builtin"})
	}
	for _, c := range f.catalogue(backend).Commands {
		if builtin(c.Name) == nil {
			rows = append(rows, commandRow{c.Name, c.Description, argsSchema(c.Hint), "plugin"})
		}
	}
	return rows
}

// argsSchema documents the words of a command; they stay one string.
func argsSchema(words string) map[string]any {
	properties := map[string]any{}
	if words != "" {
		properties["args"] = map[string]any{"type": "string", "description": words}
	}
	return map[string]any{"type": "object", "properties": properties}
}

func commandList(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[scopeParams](r)
	if err != nil {
		return nil, err
	}
	backend := c.front.backendOr("")
	if p.SessionID != nil {
		if _, s, _, err := c.front.lookup(ctx, *p.SessionID); err == nil {
			backend = s.State().Info.Backend
		}
	}
	return map[string]any{"commands": c.front.commandRows(backend)}, nil
}

func commandRun(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Name      string `json:"name"`
		Args      string `json:"args"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(p.Name, "/")
	if blank(name) || strings.ContainsAny(name, " \t\r\n") {
		return nil, invalid("name", "%q is no name of a command", cut(p.Name, 60))
	}
	sub := c.subscribe(t, chat)
	sub.hold()
	r.Then(sub.release)
	turn := ""
	if c.front.agentCommand(s, name) {
		turn, err = c.say(ctx, t, s, host.Prompt{Chat: chat, Text: strings.TrimSpace("/" + name + " " + p.Args), Busy: host.BusyQueue})
	} else {
		turn, err = c.runCommand(ctx, t, s, chat, name, strings.TrimSpace(p.Args))
	}
	if err != nil {
		return nil, err
	}
	return turnResult{turn}, nil
}
