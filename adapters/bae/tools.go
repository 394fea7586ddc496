package bae

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// toolStatus is a tool that the protocol's server offers itself: no client may
// declare one of that name.
const toolStatus = "remote_subagent_status"

// declarations is the body of open and join.
type declarations struct {
	ClientVersion *string        `json:"client_version"`
	Tools         []toolDecl     `json:"tools"`
	Sandbox       []toolDecl     `json:"sandbox_tools"`
	Subagent      []subagentTool `json:"subagent_tools"`
}

// subagentTool declares a tool that launches CLI agents in a sandbox.
type subagentTool struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Image       string          `json:"image"`
	Subagents   []launcher      `json:"subagents"`
}

type launcher struct {
	Harness  string  `json:"harness"`
	Template string  `json:"command_template"`
	Prompt   *string `json:"prompt_via"`
	Timeout  *int64  `json:"timeout_secs"`
}

// checkTools judges the form of tool declarations and fills in their defaults.
func checkTools(path string, tools []toolDecl) error {
	for i := range tools {
		t := &tools[i]
		at := fmt.Sprintf("%s[%d].", path, i)
		if err := checkDecl(at, t.Name, &t.InputSchema); err != nil {
			return err
		}
	}
	return nil
}

func checkDecl(at, name string, schema *json.RawMessage) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("%sname: want a non-empty string", at)
	case len(name) > maxName:
		return fmt.Errorf("%sname: longer than %d bytes", at, maxName)
	}
	if len(*schema) == 0 || string(*schema) == "null" {
		*schema = json.RawMessage("{}")
	}
	if !isObject(*schema) {
		return fmt.Errorf("%sinput_schema: want object, got %s", at, jsonx.Kind(*schema))
	}
	return nil
}

// decodeDeclarations reads the body of open or join; the error is for the
// client.
func decodeDeclarations(body []byte) (declarations, error) {
	var d declarations
	if len(body) == 0 {
		return d, nil
	}
	if err := check(body); err != nil {
		return d, err
	}
	if !isObject(body) {
		return d, errors.New("want an object")
	}
	if err := decode(body, &d); err != nil {
		return d, err
	}
	if d.ClientVersion != nil && len(*d.ClientVersion) > maxName {
		return d, fmt.Errorf("client_version: longer than %d bytes", maxName)
	}
	if err := checkTools("tools", d.Tools); err != nil {
		return d, err
	}
	if err := checkTools("sandbox_tools", d.Sandbox); err != nil {
		return d, err
	}
	l := d.lists()
	return d, l.count()
}

// rules judges declarations against the profile.
func (d *declarations) rules(p profile) *problem {
	for _, list := range [][]toolDecl{d.Tools, d.Sandbox} {
		for _, t := range list {
			if t.Name == toolStatus {
				return refuse("reserved_tool_name", "the server itself offers %s", toolStatus)
			}
		}
	}
	for _, t := range d.Tools {
		if !p.allows(t.Name) {
			return refuse("tool_not_allowed", "the tool %q is not in the profile's allowed_tools", t.Name)
		}
	}
	for i := range d.Subagent {
		if err := d.Subagent[i].rules(); err != nil {
			return refuse("invalid_subagent_tools", "subagent_tools[%d].%s", i, err)
		}
	}
	return nil
}

func (t *subagentTool) rules() error {
	if t.Name == toolStatus {
		return fmt.Errorf("name: %s is the server's own tool", toolStatus)
	}
	if err := checkDecl("", t.Name, &t.InputSchema); err != nil {
		return err
	}
	if strings.TrimSpace(t.Image) == "" {
		return errors.New("image: want a non-empty string")
	}
	if len(t.Subagents) == 0 {
		return errors.New("subagents: want at least one")
	}
	seen := map[string]bool{}
	for i, l := range t.Subagents {
		if err := l.rules(); err != nil {
			return fmt.Errorf("subagents[%d].%w", i, err)
		}
		if seen[l.Harness] {
			return fmt.Errorf("subagents[%d].harness: %q is there twice", i, l.Harness)
		}
		seen[l.Harness] = true
	}
	return nil
}

func (l *launcher) rules() error {
	if strings.TrimSpace(l.Harness) == "" {
		return errors.New("harness: want a non-empty string")
	}
	if strings.TrimSpace(l.Template) == "" {
		return errors.New("command_template: want a non-empty string")
	}
	prompts := 0
	for rest := l.Template; ; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			break
		}
		end := strings.IndexByte(rest[i:], '}')
		if rest[i] == '}' || end < 0 {
			return errors.New("command_template: unbalanced braces")
		}
		switch name := rest[i : i+end+1]; name {
		case "{model}":
		case "{prompt}":
			prompts++
		default:
			return fmt.Errorf("command_template: %.40q is no placeholder", name)
		}
		rest = rest[i+end+1:]
	}
	switch {
	case l.Prompt == nil || *l.Prompt == "stdin":
		if prompts > 0 {
			return errors.New("command_template: {prompt} has no place where the prompt goes to stdin")
		}
	case *l.Prompt == "arg":
		if prompts != 1 {
			return errors.New("command_template: want {prompt} exactly once")
		}
	default:
		return fmt.Errorf("prompt_via: want stdin or arg, got %.40q", *l.Prompt)
	}
	if l.Timeout != nil && *l.Timeout <= 0 {
		return errors.New("timeout_secs: want more than 0")
	}
	return nil
}

func (d *declarations) lists() lists {
	return lists{Tools: d.Tools, Sandbox: d.Sandbox, Subagent: d.Subagent}
}

// payload is what session.open and session.join say of the declarations.
func (d *declarations) payload() openPayload {
	p := openPayload{ClientVersion: d.ClientVersion}
	p.fill()
	for _, t := range d.Tools {
		p.Tools = append(p.Tools, t.Name)
	}
	for _, t := range d.Sandbox {
		p.SandboxTools = append(p.SandboxTools, t.Name)
	}
	for _, t := range d.Subagent {
		p.SubagentTools = append(p.SubagentTools, t.Name)
	}
	return p
}

// count bounds the lists together.
func (l *lists) count() error {
	if n := len(l.Tools) + len(l.Sandbox) + len(l.Subagent); n > maxTools {
		return fmt.Errorf("%d tools, at most %d", n, maxTools)
	}
	return nil
}

// shown are the tools as provider.request lists them.
func (l *lists) shown() []toolDecl {
	out := make([]toolDecl, 0, len(l.Tools)+len(l.Sandbox)+len(l.Subagent))
	out = append(append(out, l.Tools...), l.Sandbox...)
	for _, t := range l.Subagent {
		out = append(out, toolDecl{t.Name, t.Description, t.InputSchema})
	}
	return out
}

// offered are the tools that the agent may call, each name once: the first
// list that has it decides.
func (l *lists) offered() []event.ClientTool {
	seen := map[string]bool{toolPermission: true} // the gateway's to call
	var out []event.ClientTool
	for _, t := range l.shown() {
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		c := event.ClientTool{Name: t.Name, Schema: t.InputSchema}
		if t.Description != nil {
			c.Description = *t.Description
		}
		out = append(out, c)
	}
	return out
}

// routes are the names that the client does not run itself.
func (l *lists) routes() (r routes) {
	seen := map[string]bool{}
	for _, t := range l.Tools {
		seen[t.Name] = true
	}
	for _, t := range l.Sandbox {
		if !seen[t.Name] {
			r.Sandbox = append(r.Sandbox, t.Name)
		}
		seen[t.Name] = true
	}
	for _, t := range l.Subagent {
		if !seen[t.Name] {
			r.Subagent = append(r.Subagent, t.Name)
		}
	}
	return r
}
