// Package claude drives Claude Code: one process a conversation, which speaks
// JSON lines both ways on its standard streams.
//
// Three things share these lines: the conversation (prompts in; the model's
// stream, whole messages, results of calls and ends of turns out), and requests
// in both directions, such as the CLI's question whether a call may run. The
// mapper turns what comes into frames; the conversation owns the process.
//
// The CLI is started so that it asks, and the gateway's policy decides: its own
// rules are not written, its suggestions for lasting ones are not taken. One
// turn of the gateway may be several of the CLI's, when messages came in
// meanwhile or subagents work in the background. A process that dies ends its
// turn; the next prompt resumes the conversation in a new one.
package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// Name is the backend's name.
const Name = "claude"

var program = cli.Program{
	Title:   "Claude Code",
	Name:    "claude",
	Var:     "POLYHOST_CLAUDE",
	Install: "npm install -g @anthropic-ai/claude-code",
	Oldest:  "2.0.0",
}

// inherit are the variables that the CLI reads beside the usual ones.
var inherit = []string{"ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "BASH_*"}

// quiet turns off updates and everything that is not the conversation.
var quiet = []string{"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}

// Backend is Claude Code. The zero value is ready to use.
type Backend struct {
	// Path and Args are the program, in place of the one on the PATH.
	Path string
	Args []string
	// Env are NAME=value settings for the program.
	Env []string
	// Log gets what is of interest to operators; nil discards it.
	Log *slog.Logger

	open openset.Set[*conversation]
}

// New returns the backend that runs the program on the PATH.
func New() *Backend { return &Backend{} }

// Missing is why the program cannot be found, an *agent.Problem, found without
// delay; nil when it can.
func Missing() error {
	_, _, err := program.Find()
	return err
}

// spec is what all processes of the CLI have in common.
func (b *Backend) spec() (cli.Spec, error) {
	path, args := b.Path, b.Args
	if path == "" {
		var err error
		if path, args, err = program.Find(); err != nil {
			return cli.Spec{}, err
		}
	} else if _, err := exec.LookPath(path); err != nil {
		return cli.Spec{}, &agent.Problem{Code: agent.ProblemMissing, Message: "Claude Code is not at " + path, Fix: program.Install}
	}
	env := slices.Concat(quiet, b.Env)
	if os.Getenv("CLAUDE_CODE_MAX_RETRIES") == "" {
		env = append([]string{"CLAUDE_CODE_MAX_RETRIES=" + maxRetries}, env...)
	}
	return cli.Spec{Path: path, Args: slices.Clone(args), Env: env, Inherit: inherit, Log: b.Log}, nil
}

// initialized is the CLI's answer to the first request.
type initialized struct {
	Commands []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Hint        string `json:"argumentHint"`
	} `json:"commands"`
	Agents []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"agents"`
	Models []struct {
		Value       string   `json:"value"`
		Name        string   `json:"displayName"`
		Description string   `json:"description"`
		Efforts     []string `json:"supportedEffortLevels"`
		Thinking    bool     `json:"supportsAdaptiveThinking"`
	} `json:"models"`
	Account struct {
		TokenSource  string `json:"tokenSource"`
		APIKeySource string `json:"apiKeySource"`
		Provider     string `json:"apiProvider"`
		Email        string `json:"email"`
	} `json:"account"`
	Version string `json:"claude_code_version"`
}

// anthropicAPI is what a client may lend a key for.
const anthropicAPI = "https://api.anthropic.com"

// pluginsSince is a version that certainly takes --plugin-dir, without which it
// would not start, and envFile.
const pluginsSince = "2.1.0"

// envFile is a setting that names a file of which the CLI puts the content before
// each of its shell commands. The call that it asks about stays as the model wrote it.
const envFile = "CLAUDE_ENV_FILE"

// Can is what the agent promises, whatever is installed.
func Can() agent.Capabilities {
	return agent.Capabilities{
		Steer: true, Resume: true, Images: true, Reasoning: true, Plan: true, Subagents: true, Questions: true, Approvals: true,
		Usage: true, SetModel: true, SetMode: true, MCP: true, Dirs: true, Fork: true, ForkAt: true, Catalogue: true, Background: true, Compact: true, SwitchServers: true, StartServers: true, ServerTokens: true, Plugins: true, ResumeTurn: true, ShellInit: true,
	}
}

// Info starts the CLI for a moment and asks what it has.
func (b *Backend) Info(ctx context.Context) (agent.Info, error) {
	info := agent.Info{
		Name: Name, Title: "Claude Code", Description: "Anthropic's coding agent",
		Capabilities: Can(),
		Tools:        tools(),
		Resources:    []agent.Resource{{ID: anthropicAPI, Name: "Anthropic API"}},
		Folders:      agent.Folders{Commands: ".claude/commands", Skills: ".claude/skills", Subagents: ".claude/agents"},
	}
	s, err := b.spec()
	if err != nil {
		return agent.Info{}, err
	}
	short, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	if info.Version, err = program.Version(short, s); err != nil {
		return agent.Info{}, err
	}
	info.Capabilities.Plugins = !cli.Older(info.Version, pluginsSince)
	info.Capabilities.ShellInit = info.Capabilities.Plugins
	dir, err := os.MkdirTemp("", "polyhost-claude-")
	if err != nil {
		return agent.Info{}, fmt.Errorf("make a folder to start Claude Code in: %w", err)
	}
	defer os.RemoveAll(dir)
	answer, err := b.probe(ctx, s, dir)
	if err != nil {
		return agent.Info{}, err
	}
	for _, m := range answer.Models {
		info.Models = append(info.Models, agent.Model{ID: m.Value, Name: m.Name, Provider: "anthropic", Reasoning: m.Thinking, Images: true, Efforts: m.Efforts})
		for _, e := range m.Efforts {
			if !slices.Contains(info.Efforts, e) {
				info.Efforts = append(info.Efforts, e)
			}
		}
	}
	info.Commands, info.Subagents = answer.offer()
	if a := answer.Account; a.Email == "" && (a.TokenSource == "" || a.TokenSource == "none") && (a.APIKeySource == "" || a.APIKeySource == "none") &&
		(a.Provider == "" || a.Provider == "firstParty") {
		info.Problems = append(info.Problems, agent.Problem{Code: agent.ProblemSignedOut, Message: "Claude Code is not signed in", Fix: "claude auth login"})
	}
	return info, nil
}

// probe starts the CLI, asks it the first request and ends it.
func (b *Backend) probe(ctx context.Context, s cli.Spec, dir string) (initialized, error) {
	s.Args = append(s.Args, streamArgs...)
	s.Args = append(s.Args, "--no-session-persistence", "--strict-mcp-config")
	s.Dir = dir
	p, err := cli.Start(s)
	if err != nil {
		return initialized{}, broken(err.Error())
	}
	defer p.Release()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() })
	defer stop()
	defer func() { _ = p.Close() }()
	_ = p.Write(control("probe", map[string]any{"subtype": "initialize"}))
	for {
		line, err := p.Next()
		if errors.Is(err, lines.ErrTooLong) {
			continue
		}
		if err != nil {
			break
		}
		var r record
		var c controlResponse
		if json.Unmarshal(line, &r) != nil || r.Type != "control_response" || json.Unmarshal(r.Response, &c) != nil || c.RequestID != "probe" {
			continue
		}
		var answer initialized
		if c.Subtype != "success" || json.Unmarshal(c.Response, &answer) != nil {
			return initialized{}, broken(words(c.Error, "its answer makes no sense"))
		}
		return answer, nil
	}
	if ctx.Err() != nil {
		return initialized{}, broken("it does not answer in time")
	}
	<-p.Done()
	return initialized{}, broken(p.Exit())
}

func broken(why string) *agent.Problem {
	return &agent.Problem{Code: agent.ProblemBroken, Message: "Claude Code does not start: " + why, Fix: program.Install}
}

func tools() (list []agent.ToolInfo) {
	for _, name := range []string{"Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "WebFetch", "WebSearch", "Agent"} {
		list = append(list, agent.ToolInfo{Name: name, Tag: tags[name]})
	}
	return list
}

// Open starts the CLI and waits for its first answer.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	if len(o.Dirs) == 0 || slices.ContainsFunc(o.Dirs, func(d string) bool { return !filepath.IsAbs(d) }) {
		return nil, errors.New("working directories must be absolute")
	}
	c := newConversation(b, o)
	err := b.open.Add(c)
	if err == nil && o.Fork && o.ForkAt != "" {
		err = c.forkAt(ctx)
	}
	if err == nil {
		err = c.first(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends all conversations and their processes.
func (b *Backend) Close() error { return b.open.Close() }

func (b *Backend) log() *slog.Logger {
	if b.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return b.Log
}

// permissionMode is the CLI's mode: it plans, or it asks.
func permissionMode(m event.Mode) string {
	if m == event.ModePlan {
		return "plan"
	}
	return "default"
}
