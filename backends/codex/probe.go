package codex

import (
	"context"
	"os"
	"slices"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// commandCompact is the one command of the program that a prompt can be, beside its skills.
const commandCompact = "compact"

// Can is what the agent promises, whatever is installed.
func Can() agent.Capabilities {
	return agent.Capabilities{
		Steer: true, Resume: true, Images: true, Reasoning: true, Plan: true, Subagents: true, Questions: true,
		Approvals: true, Usage: true, SetModel: true, SetMode: true, MCP: true, Fork: true, ForkAt: true,
		Catalogue: true, Background: true, Compact: true, StartServers: true, ResumeTurn: true,
	}
}

// Info asks the program for its version, its models and who is signed in. It
// starts it and ends it again.
func (b *Backend) Info(ctx context.Context) (agent.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	path, args, env, err := b.find()
	if err != nil {
		return agent.Info{}, err
	}
	version, err := program.Version(ctx, cli.Spec{Path: path, Args: args, Env: env, Inherit: inherited, Log: b.log})
	if err != nil {
		return agent.Info{}, err
	}
	info := agent.Info{
		Name: Name, Title: "Codex", Description: "OpenAI's coding agent", Version: version,
		Capabilities: Can(),
		Folders:      agent.Folders{Skills: ".agents/skills"},
		Tools: []agent.ToolInfo{
			{Name: toolShell, Description: "Run a shell command", Tag: event.TagExec},
			{Name: toolPatch, Description: "Change files", Tag: event.TagWrite},
			{Name: toolSearch, Description: "Search the web", Tag: event.TagNetwork},
			{Name: toolView, Description: "Look at an image file", Tag: event.TagRead},
			{Name: toolSpawn, Description: "Hand a task to a subagent", Tag: event.TagDelegate},
		},
	}
	l, err := b.probe(ctx)
	if err != nil {
		return agent.Info{}, err
	}
	defer l.close()
	if err := models(ctx, l, &info); err != nil {
		return agent.Info{}, broken(err.Error())
	}
	everywhere, err := readSkills(ctx, l, os.TempDir())
	if err != nil {
		b.log.Debug("codex does not say which skills it has", "error", err)
	}
	info.Commands = offered(everywhere)
	var account struct {
		Account  *struct{} `json:"account"`
		Required bool      `json:"requiresOpenaiAuth"`
	}
	if err := l.call(ctx, "account/read", map[string]any{}, &account); err != nil {
		return agent.Info{}, broken(err.Error())
	}
	if account.Account == nil && account.Required {
		info.Problems = append(info.Problems, agent.Problem{Code: agent.ProblemSignedOut, Message: "Codex is not signed in", Fix: "codex login"})
	}
	return info, nil
}

// probe starts the program for questions that concern no conversation.
func (b *Backend) probe(ctx context.Context) (*link, error) {
	if b.ctx.Err() != nil {
		return nil, openset.ErrClosed
	}
	return b.start(ctx, os.TempDir(), func(l *link, m message) {
		if len(m.ID) > 0 {
			l.refuse(m.ID, m.Method)
		}
	}, func(*link, error) {})
}

// models fills in what the program lists; the one that its configuration names
// is the default, also if it is not listed.
func models(ctx context.Context, l *link, info *agent.Info) error {
	var configured struct {
		Config struct {
			Model    string `json:"model"`
			Provider string `json:"model_provider"`
		} `json:"config"`
	}
	if err := l.call(ctx, "config/read", map[string]any{}, &configured); err != nil {
		return err
	}
	own := configured.Config
	if own.Provider == "" {
		own.Provider = "openai"
	}
	cursor, first := "", ""
	for len(info.Models) < maxModels {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Data []struct {
				Model      string   `json:"model"`
				Name       string   `json:"displayName"`
				Hidden     bool     `json:"hidden"`
				Default    bool     `json:"isDefault"`
				Modalities []string `json:"inputModalities"`
				Efforts    []struct {
					Effort string `json:"reasoningEffort"`
				} `json:"supportedReasoningEfforts"`
			} `json:"data"`
			Next string `json:"nextCursor"`
		}
		if err := l.call(ctx, "model/list", params, &page); err != nil {
			return err
		}
		for _, m := range page.Data {
			if m.Hidden {
				continue
			}
			if m.Default {
				first = m.Model
			}
			info.Models = append(info.Models, agent.Model{ID: m.Model, Name: m.Name, Provider: own.Provider,
				Reasoning: len(m.Efforts) > 0, Images: slices.Contains(m.Modalities, "image")})
			for _, e := range m.Efforts {
				row := &info.Models[len(info.Models)-1]
				row.Efforts = append(row.Efforts, e.Effort)
				if !slices.Contains(info.Efforts, e.Effort) {
					info.Efforts = append(info.Efforts, e.Effort)
				}
			}
		}
		if page.Next == "" || page.Next == cursor {
			break
		}
		cursor = page.Next
	}
	if own.Model != "" {
		first = own.Model
	}
	i := slices.IndexFunc(info.Models, func(m agent.Model) bool { return m.ID == first })
	switch {
	case i > 0:
		m := info.Models[i]
		info.Models = slices.Insert(slices.Delete(info.Models, i, i+1), 0, m)
	case i < 0 && first != "":
		info.Models = slices.Insert(info.Models, 0, agent.Model{ID: first, Name: first, Provider: own.Provider})
	}
	return nil
}
