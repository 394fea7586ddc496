package codex

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// The program asks about every command and every change of a file, and runs
// what was allowed as it is: the gateway's policy decides, and a sandbox that
// needs namespaces of its own would fail inside containers.
const (
	approvalPolicy = "untrusted"
	sandbox        = "danger-full-access"
)

// errAttachment is for what cannot be handed over with a prompt.
var errAttachment = errors.New("bad attachment")

// threadParams are how a thread begins, apart from which one it is.
func (c *conversation) threadParams() threadParams {
	p := threadParams{Cwd: c.open.Dirs[0], Model: c.settings.Model, ApprovalPolicy: approvalPolicy, Sandbox: sandbox}
	for _, s := range c.open.MCP {
		if p.Config == nil {
			p.Config = map[string]any{}
		}
		server := map[string]any{"url": s.URL, "default_tools_approval_mode": "prompt"}
		if len(s.Headers) > 0 {
			server["http_headers"] = s.Headers
		}
		if s.Name == gateway {
			// Its clients are asked by the gateway.
			server["default_tools_approval_mode"] = "approve"
		}
		p.Config["mcp_servers."+s.Name] = server
	}
	return p
}

// turnParams is a prompt with what a person picked. All settings stick to the
// thread, so each turn names all of them.
func (c *conversation) turnParams(p agent.Prompt) (turnParams, error) {
	in, err := c.inputs(p)
	if err != nil {
		return turnParams{}, err
	}
	t := turnParams{ThreadID: c.thread, Input: in, Summary: "auto",
		Model:  cmp.Or(p.Settings.Model, c.settings.Model, c.model),
		Effort: cmp.Or(p.Settings.Effort, c.settings.Effort, c.effort)}
	if t.Model == "" {
		return t, nil
	}
	t.Collaboration = &collaborationMode{Mode: "default"}
	if cmp.Or(p.Settings.Mode, c.settings.Mode) == event.ModePlan {
		t.Collaboration.Mode = "plan"
	}
	t.Collaboration.Settings.Model = t.Model
	if t.Effort != "" {
		t.Collaboration.Settings.Effort = &t.Effort
	}
	return t, nil
}

// inputs are the pieces of a message.
func (c *conversation) inputs(p agent.Prompt) ([]input, error) {
	text := p.Text
	var more []input
	if s, ok := c.called(text); ok {
		more = append(more, s)
	}
	for _, a := range p.Attachments {
		switch {
		case a.Kind == event.AttachImage && len(a.Data) > 0:
			mime := cmp.Or(a.MIME, http.DetectContentType(a.Data))
			more = append(more, input{Type: "image", URL: "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(a.Data)})
		case a.Kind == event.AttachImage && a.Path != "":
			more = append(more, input{Type: "localImage", Path: c.absolute(a.Path)})
		case a.Path != "":
			more = append(more, input{Type: "mention", Name: cmp.Or(a.Name, filepath.Base(a.Path)), Path: c.absolute(a.Path)})
		case a.Text != "" || len(a.Data) > 0:
			body := a.Text
			if body == "" {
				body = strings.ToValidUTF8(string(a.Data), "\ufffd")
			}
			more = append(more, input{Type: "text", Text: fmt.Sprintf("<attachment name=%q>\n%s\n</attachment>", a.Name, body)})
		default:
			return nil, fmt.Errorf("%w: %s holds nothing", errAttachment, cmp.Or(a.Name, "one"))
		}
	}
	return append([]input{{Type: "text", Text: text}}, more...), nil
}

func (c *conversation) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.open.Dirs[0], path)
}
