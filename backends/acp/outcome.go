package acp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
)

func (m *mapper) endCall(c *call, t *toolCall) {
	c.ended = true
	if !c.ran && c.asks == 0 {
		m.run(c)
	}
	r := outcome(t)
	r.Edits = c.edits
	if t.Status == "failed" {
		r.Failed, r.Edits = true, nil
		r.Error = first(r.Error, firstLine(r.Output), "the call failed")
	}
	if r.Output == c.said {
		r.Output = ""
	}
	m.put(agent.Frame{Kind: agent.ToolEnd, Child: c.child, Call: c.key, Result: r})
}

// rawOutput has the fields that agents were seen to put there.
type rawOutput struct {
	Output     string `json:"output"`
	Aggregated string `json:"aggregated_output"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Error      string `json:"error"`
	ExitCode   *int   `json:"exit_code"`
	Metadata   struct {
		Exit *int `json:"exit"`
	} `json:"metadata"`
}

// exitLine is how Claude begins the output of a command that failed.
var exitLine = regexp.MustCompile(`^Exit code (\d+)\n?`)

// outcome reads how a call ended.
func outcome(t *toolCall) *agent.Result {
	r := &agent.Result{}
	var text string
	var raw rawOutput
	switch {
	case len(t.Output) > 0 && json.Unmarshal(t.Output, &text) == nil:
		r.Output = text
		if m := exitLine.FindStringSubmatch(text); m != nil && t.Status == "failed" {
			code, _ := strconv.Atoi(m[1])
			r.ExitCode, r.Output = &code, text[len(m[0]):]
		}
	case len(t.Output) > 0 && decode(t.Output, &raw) == nil:
		r.Output = first(raw.Aggregated, raw.Output, raw.Stdout+raw.Stderr)
		r.ExitCode = raw.ExitCode
		if r.ExitCode == nil {
			r.ExitCode = raw.Metadata.Exit
		}
		r.Error = raw.Error
	}
	if r.Output == "" {
		r.Output = contentText(t.Content)
	}
	if r.ExitCode != nil && *r.ExitCode != 0 {
		r.Failed, r.Error = true, fmt.Sprintf("exit status %d", *r.ExitCode)
	}
	return r
}

// contentText joins the texts that a call shows, without the fences that
// adapters put around output.
func contentText(raw json.RawMessage) string {
	var list []toolContent
	if len(raw) == 0 || decode(raw, &list) != nil {
		return ""
	}
	var parts []string
	for i := range list {
		if list[i].Type != "content" {
			continue
		}
		text := blockText(&list[i].Content)
		if body, ok := strings.CutPrefix(text, "```"); ok {
			if _, after, found := strings.Cut(body, "\n"); found && strings.HasSuffix(after, "\n```") {
				text = strings.TrimSuffix(after, "```")
			}
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
