package acp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/mcpjson"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/environ"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// link is a running agent with one session in it.
type link struct {
	*peer
	agent *Agent
	init  initializeAnswer
	read  chan struct{} // closed when the reader is done

	session string
	note    string // on MCP servers that were not started
	replays bool   // the history is wanted

	mu       sync.Mutex
	heard    time.Time // when the last update came
	modes    *sessionModes
	models   *sessionModels
	options  []configOption
	initial  map[string]string // what was set when the session began
	commands []agent.Command
}

// listener takes what the agent says by itself.
type listener interface {
	update(*link, *update)
	request(*link, *message)
	tooLong(*lines.TooLongError)
}

// connect starts the agent's program and shakes hands.
func (a *Agent) connect(ctx context.Context, dir string, secrets []string, to listener) (*link, error) {
	path, extra, err := a.Program.Find()
	if err != nil {
		return nil, err
	}
	p, err := cli.Start(cli.Spec{Path: path, Args: slices.Concat(a.Args(), extra), Env: a.Env, Inherit: a.Inherit,
		Dir: dir, Secrets: secrets, Log: slog.Default().With("agent", a.Name)})
	if err != nil {
		return nil, a.broken(err.Error())
	}
	l := &link{peer: newPeer(p), agent: a, read: make(chan struct{}), initial: map[string]string{}}
	go func() {
		defer close(l.read)
		l.peer.read(func(m *message) { l.hear(m, to) }, to.tooLong)
	}()
	hello := initializeRequest{ProtocolVersion: protocolVersion, ClientInfo: implementation{Name: "polyhost", Title: "polyhost", Version: "1"}}
	hello.ClientCapabilities.FS = fsCapabilities{Read: true, Write: true}
	err = l.call(ctx, "initialize", hello, &l.init)
	switch {
	case err == nil && l.init.ProtocolVersion == protocolVersion:
		return l, nil
	case errors.Is(err, errDied):
		<-p.Done()
		err = a.broken(p.Exit())
	case err == nil:
		err = &agent.Problem{Code: agent.ProblemTooOld, Fix: a.Program.Install,
			Message: fmt.Sprintf("%s speaks version %d of the protocol, not %d", a.Title, l.init.ProtocolVersion, protocolVersion)}
	case errors.Is(err, context.DeadlineExceeded):
		err = a.broken("no answer in time: " + p.Tail())
	}
	l.stop()
	return nil, err
}

func (a *Agent) broken(why string) error {
	return &agent.Problem{Code: agent.ProblemBroken, Message: fmt.Sprintf("%s does not start: %s", a.Title, why), Fix: a.Program.Install}
}

// stop ends the agent and waits for its reader.
func (l *link) stop() {
	if err := l.proc.Close(); err != nil {
		slog.Warn("an agent does not end", "agent", l.agent.Name, "error", err)
	}
	l.proc.Release()
	<-l.read
}

// hear sorts what the agent says by itself.
func (l *link) hear(m *message, to listener) {
	if m.Method != "session/update" {
		to.request(l, m)
		return
	}
	var n updateNotification
	if decode(m.Params, &n) != nil {
		return
	}
	l.mu.Lock()
	l.heard = time.Now()
	switch n.Update.Kind {
	case "current_mode_update":
		if l.modes != nil {
			l.modes.Current = n.Update.Mode
		}
	case "config_option_update":
		l.options = n.Update.Options
	case "available_commands_update":
		l.commands = commands(n.Update.Commands)
	}
	l.mu.Unlock()
	to.update(l, &n.Update)
}

// open begins, resumes or forks the session.
func (l *link) open(ctx context.Context, o *agent.Open, id string) error {
	req := sessionRequest{Session: id, Dir: o.Dirs[0], MCP: []httpServer{}}
	caps := l.init.Capabilities
	if caps.Session.Dirs != nil {
		req.Dirs = o.Dirs[1:]
	}
	if caps.MCP.HTTP {
		for _, s := range o.MCP {
			srv := httpServer{Type: "http", Name: s.Name, URL: s.URL, Headers: []header{}}
			for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
				srv.Headers = append(srv.Headers, header{name, s.Headers[name]})
			}
			req.MCP = append(req.MCP, srv)
		}
	}
	if l.agent.FolderServers {
		held := mcpjson.Withhold(o.Dirs[0], l.agent.variable)
		l.note = held.Note
		if held.Note != "" {
			req.Meta = &sessionMeta{}
			req.Meta.Claude.Options.Strict = held.All
		}
		if len(held.Names) > 0 {
			req.Meta.Claude.Options.Settings = &claudeSettings{held.Names}
		}
	}
	method := "session/new"
	switch {
	case id != "" && o.Fork && caps.Session.Fork != nil:
		method = "session/fork"
	case id != "" && o.Fork:
		return &resumeError{fmt.Errorf("%s cannot fork a conversation", l.agent.Title)}
	case id != "" && caps.Session.Resume != nil && !l.replays:
		method = "session/resume"
	case id != "" && caps.Load:
		method = "session/load"
	case id != "":
		return &resumeError{fmt.Errorf("%s cannot resume a conversation", l.agent.Title)}
	}
	var a sessionAnswer
	err := l.call(ctx, method, req, &a)
	if refused := new(rpcError); errors.As(err, &refused) && refused.Code == codeSignIn {
		if err = l.signIn(ctx); err == nil {
			err = l.call(ctx, method, req, &a)
		}
	}
	switch refused := new(rpcError); {
	case errors.As(err, &refused) && refused.Code == codeSignIn:
		return &agent.Problem{Code: agent.ProblemSignedOut, Message: l.agent.Title + " is not signed in", Fix: l.agent.SignIn}
	case errors.As(err, &refused) && id != "":
		return &resumeError{fmt.Errorf("%s cannot resume the conversation: %s", l.agent.Title, refused.text())}
	case errors.Is(err, context.DeadlineExceeded):
		return l.agent.broken("no session in time")
	case err != nil:
		return err
	}
	l.session = first(a.Session, id)
	l.mu.Lock()
	l.modes, l.models, l.options = a.Modes, a.Models, a.Options
	for _, what := range []string{setMode, setModel, setEffort} {
		l.initial[what] = l.currently(what)
	}
	l.mu.Unlock()
	if method == "session/load" {
		return l.settle(ctx)
	}
	return nil
}

// variable is what the agent's program sees of a variable.
func (a *Agent) variable(name string) string {
	for _, v := range slices.Backward(environ.For(a.Inherit, a.Env)) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// resumeError is why a conversation cannot go on.
type resumeError struct{ error }

func (e *resumeError) Unwrap() error { return e.error }

// signIn uses a key from the environment, where there is one.
func (l *link) signIn(ctx context.Context) error {
	env := environ.For(l.agent.Inherit, l.agent.Env)
	for _, k := range l.agent.Keys {
		set := slices.ContainsFunc(env, func(v string) bool { return len(v) > len(k.Var)+1 && v[:len(k.Var)+1] == k.Var+"=" })
		if set && l.agent.offers(&l.init, k.Method) {
			return l.call(ctx, "authenticate", map[string]string{"methodId": k.Method}, nil)
		}
	}
	return &rpcError{Code: codeSignIn, Message: "not signed in"}
}

// settle waits until a replayed history is over: some agents answer before.
func (l *link) settle(ctx context.Context) error {
	deadline := time.Now().Add(quietBound)
	for {
		l.mu.Lock()
		silent := time.Since(l.heard)
		l.mu.Unlock()
		if silent >= quiet || time.Now().After(deadline) {
			return nil
		}
		t := time.NewTimer(quiet - silent)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// The settings that a session has, by the category of its config options.
const (
	setMode   = "mode"
	setModel  = "model"
	setEffort = "thought_level"
)

func (l *link) option(what string) *configOption {
	i := slices.IndexFunc(l.options, func(o configOption) bool { return o.Category == what })
	if i < 0 {
		return nil
	}
	return &l.options[i]
}

// currently is a setting's value, "" if the session has no such setting.
func (l *link) currently(what string) string {
	if what == setMode && l.modes != nil {
		return l.modes.Current
	}
	if o := l.option(what); o != nil {
		s, _ := o.Current.(string)
		return s
	}
	if what == setModel && l.models != nil {
		return l.models.Current
	}
	return ""
}

// choices are the values that a setting may have.
func (l *link) choices(what string) []optionChoice {
	var out []optionChoice
	if what == setMode && l.modes != nil {
		for _, m := range l.modes.Available {
			out = append(out, optionChoice{Value: m.ID, Name: m.Name, Description: m.Description})
		}
		return out
	}
	if o := l.option(what); o != nil {
		for _, c := range o.Options {
			if c.Options == nil {
				out = append(out, c)
			}
			out = append(out, c.Options...)
		}
		return out
	}
	if what == setModel && l.models != nil {
		for _, m := range l.models.Available {
			out = append(out, optionChoice{Value: m.ID, Name: m.Name, Description: m.Description})
		}
	}
	return out
}

// has tells whether a setting may have a value.
func (l *link) has(what, value string) bool {
	return slices.ContainsFunc(l.choices(what), func(c optionChoice) bool { return c.Value == value })
}

// apply brings the session to the settings of a prompt.
func (l *link) apply(ctx context.Context, s event.Settings) error {
	ctx, cancel := context.WithTimeout(ctx, configBound)
	defer cancel()
	for _, set := range []struct{ what, want string }{{setMode, l.mode(s)}, {setModel, s.Model}, {setEffort, s.Effort}} {
		if err := l.set(ctx, set.what, set.want); err != nil {
			return err
		}
	}
	return nil
}

// mode is the agent's mode for the gateway's: one in which it asks, or plans.
func (l *link) mode(s event.Settings) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.Mode == event.ModePlan && l.has(setMode, l.agent.PlanMode):
		return l.agent.PlanMode
	case l.agent.Personas:
		return s.Agent
	case l.has(setMode, l.agent.AskMode):
		return l.agent.AskMode
	}
	return ""
}

// set changes a setting if it is another one; nothing wanted is what the
// session began with.
func (l *link) set(ctx context.Context, what, want string) error {
	l.mu.Lock()
	if want == "" || want == event.Inherit {
		want = l.initial[what]
	}
	now, option := l.currently(what), l.option(what)
	modes, models := l.modes != nil, l.models != nil
	l.mu.Unlock()
	if want == "" || want == now {
		return nil
	}
	var err error
	switch {
	case what == setMode && modes:
		if err = l.call(ctx, "session/set_mode", map[string]string{"sessionId": l.session, "modeId": want}, nil); err == nil {
			l.mu.Lock()
			l.modes.Current = want
			l.mu.Unlock()
		}
	case option != nil:
		var a sessionAnswer
		err = l.call(ctx, "session/set_config_option", map[string]string{"sessionId": l.session, "configId": option.ID, "value": want}, &a)
		if err == nil && len(a.Options) > 0 {
			l.mu.Lock()
			l.options = a.Options
			l.mu.Unlock()
		}
	case what == setModel && models:
		if err = l.call(ctx, "session/set_model", map[string]string{"sessionId": l.session, "modelId": want}, nil); err == nil {
			l.mu.Lock()
			l.models.Current = want
			l.mu.Unlock()
		}
	default:
		return nil // the agent has no such setting
	}
	var refused *rpcError
	if errors.As(err, &refused) {
		return fmt.Errorf("%s does not take %q as its %s: %s", l.agent.Title, want, settingNames[what], refused.text())
	}
	return err
}

var settingNames = map[string]string{setMode: "mode", setModel: "model", setEffort: "effort"}
