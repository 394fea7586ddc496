// Package pi drives the pi coding agent through its RPC mode: a process a
// conversation, JSON records both ways.
//
// pi asks nobody before it acts, so the gateway loads an extension into it that
// does (gate.ts) and that also offers clients' tools. pi keeps conversations
// in files of its own, by which they are resumed, forked, listed and read.
//
// It knows the agent port and pi; no front and no plugin.
package pi

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

//go:embed gate.ts
var gate []byte

// Program is pi's command and how to get it.
var Program = cli.Program{
	Title: "pi", Name: "pi", Var: "POLYHOST_PI", Oldest: "0.70.0",
	Install: "npm install -g @mariozechner/pi-coding-agent",
}

// Variables of the gateway's environment that pi reads: its own and the keys of
// the providers it knows.
var Variables = []string{
	"PI_*", "POLYHOST_PI*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "AZURE_OPENAI_*", "AWS_*", "MISTRAL_*", "GROQ_*",
	"CEREBRAS_*", "XAI_*", "OPENROUTER_*", "AI_GATEWAY_*", "ZAI_*", "DEEPSEEK_*", "MINIMAX_*", "HF_TOKEN", "COPILOT_GITHUB_TOKEN",
	"CLOUDFLARE_*", "FIREWORKS_*", "KIMI_*", "OPENCODE_API_KEY",
}

// quiet keeps pi from asking for updates and from reporting use.
var quiet = []string{"PI_TELEMETRY=0", "PI_SKIP_VERSION_CHECK=1"}

// efforts are pi's thinking levels.
var efforts = []string{"off", "minimal", "low", "medium", "high", "xhigh"}

// Backend is pi. The zero value is ready to use.
type Backend struct {
	path string   // of the program; "" finds it
	env  []string // further settings for it

	open openset.Set[*conversation]

	mu     sync.Mutex
	dir    string // with the extension; "" until it is needed
	closed bool
}

// Name is the name of the backend.
const Name = "pi"

// New returns the backend of the pi that is installed.
func New() *Backend { return &Backend{} }

// Missing is why the program cannot be found, an *agent.Problem, found without
// delay; nil when it can.
func Missing() error {
	_, _, err := Program.Find()
	return err
}

// Can is what the agent promises, whatever is installed.
func Can() agent.Capabilities {
	return agent.Capabilities{
		Steer: true, Resume: true, Images: true, Reasoning: true, Questions: true, ClientTools: true,
		Approvals: true, Usage: true, SetModel: true, Fork: true, ForkAt: true, Catalogue: true, Compact: true, ResumeTurn: true,
	}
}

// Info asks pi for its version, models and commands. It starts the program.
func (b *Backend) Info(ctx context.Context) (agent.Info, error) {
	path, args, err := b.find()
	if err != nil {
		return agent.Info{}, err
	}
	home := os.TempDir()
	version, err := Program.Version(ctx, cli.Spec{Path: path, Args: args, Env: slices.Concat(quiet, b.env), Inherit: Variables, Dir: home})
	if err != nil {
		return agent.Info{}, err
	}
	info := agent.Info{
		Name: Name, Title: "pi", Description: "pi coding agent", Version: version, Efforts: efforts,
		Capabilities: Can(),
	}
	for _, name := range []string{"read", "grep", "find", "ls", "write", "edit", "bash"} {
		info.Tools = append(info.Tools, agent.ToolInfo{Name: name, Tag: tags[name]})
	}
	p, err := b.start(home, "--no-session")
	if err != nil {
		return agent.Info{}, err
	}
	defer p.close()
	go func() {
		for range p.events { // until it has ended
		}
	}()
	var answers struct {
		Models   []model         `json:"models"`
		Commands []agent.Command `json:"commands"`
	}
	for _, command := range []string{"get_available_models", "get_commands"} {
		r, err := p.ask(ctx, object{"type": command})
		if err != nil {
			return agent.Info{}, &agent.Problem{Code: agent.ProblemBroken, Message: fmt.Sprintf("pi does not answer: %v", err), Fix: Program.Install}
		}
		if err := json.Unmarshal(r.Data, &answers); err != nil {
			return agent.Info{}, fmt.Errorf("pi's answer to %s: %w", command, err)
		}
	}
	for _, m := range answers.Models {
		info.Models = append(info.Models, agent.Model{ID: modelName(m.Provider, m.ID), Name: m.Name, Provider: m.Provider, Context: m.Window,
			Reasoning: m.Reasoning, Images: strings.Contains(strings.Join(m.Input, " "), "image")})
	}
	for _, c := range answers.Commands {
		if c.Name != toolsCommand {
			info.Commands = append(info.Commands, c)
		}
	}
	if len(info.Models) == 0 {
		info.Problems = append(info.Problems, agent.Problem{Code: agent.ProblemSignedOut, Message: "pi has no model it may use",
			Fix: "run pi and /login, or set the key of a provider, such as ANTHROPIC_API_KEY"})
	}
	return info, nil
}

func (b *Backend) find() (path string, args []string, err error) {
	if b.path != "" {
		p := Program
		p.Name, p.Var = b.path, ""
		return p.Find()
	}
	return Program.Find()
}

// start runs pi with the gate in a directory.
func (b *Backend) start(dir string, args ...string) (*process, error) {
	path, more, err := b.find()
	if err != nil {
		return nil, err
	}
	extension, err := b.extension()
	if err != nil {
		return nil, err
	}
	return startProcess(cli.Spec{Path: path, Args: append(append(more, "--mode", "rpc", "-e", extension), args...),
		Env: slices.Concat(quiet, b.env), Inherit: Variables, Dir: dir})
}

// broken is a pi that is there and does not work.
func broken(why string) *agent.Problem {
	return &agent.Problem{Code: agent.ProblemBroken, Message: "pi does not start: " + why, Fix: Program.Install}
}

// extension is the path of the gate, which it writes when it is first needed.
func (b *Backend) extension() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return "", errClosed
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "polyhost-pi-")
		if err != nil {
			return "", fmt.Errorf("a place for pi's extension: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "gate.ts"), gate, 0o600); err != nil {
			return "", errors.Join(fmt.Errorf("write pi's extension: %w", err), os.RemoveAll(dir))
		}
		b.dir = dir
	}
	return filepath.Join(b.dir, "gate.ts"), nil
}

// Open begins, resumes or forks a conversation and waits until pi is ready.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	if len(o.Dirs) == 0 || !filepath.IsAbs(o.Dirs[0]) {
		return nil, errors.New("pi needs an absolute working directory")
	}
	c := newConversation(b, o)
	if err := b.open.Add(c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c.life.Lock()
	err := c.run(ctx)
	c.life.Unlock()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends all conversations.
func (b *Backend) Close() error {
	b.mu.Lock()
	dir := b.dir
	b.dir, b.closed = "", true
	b.mu.Unlock()
	err := b.open.Close()
	if dir != "" {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// describeSettings is the model and effort to ask pi for.
func describeSettings(s event.Settings) (provider, model, effort string) {
	if s.Model != "" && s.Model != event.Inherit {
		provider, model, _ = strings.Cut(s.Model, "/")
		if model == "" {
			provider, model = "", s.Model
		}
	}
	if s.Effort != event.Inherit {
		effort = s.Effort
	}
	return provider, model, effort
}
