package cognitio

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
)

func (v view) head(messageID, partID, kind string) partHead {
	return partHead{ID: partID, SessionID: v.session, MessageID: messageID, Type: kind}
}

func (v view) stepStart(s *step) stepStartPart {
	return stepStartPart{v.head(s.id, s.startPart(), "step-start")}
}

func (v view) stepFinish(s *step, info assistantMessage) stepFinishPart {
	reason := info.Finish
	if reason == "" {
		reason = finishError
	}
	return stepFinishPart{v.head(s.id, s.finishPart(), "step-finish"), reason, info.Cost, info.Tokens}
}

// part is what a step shows of a part.
func (v view) part(s *step, p *event.Part) any {
	partID := p.ID.Cognitio(prefixPart)
	when := &span{Start: millis(p.StartedAt)}
	if p.Ended() {
		when.End = millis(p.EndedAt)
	}
	switch p.Kind {
	case event.PartTool:
		if p.Tool != nil {
			return v.tool(s, p, partID)
		}
	case event.PartImage:
		if p.Image != nil {
			return filePart{partHead: v.head(s.id, partID, "file"), MIME: mimeOf(p.Image), Filename: p.Image.Name, URL: v.url(p.Image)}
		}
	case event.PartReasoning:
		return textPart{partHead: v.head(s.id, partID, "reasoning"), Text: p.Text.String(), Time: when}
	case event.PartNotice:
		t := textPart{partHead: v.head(s.id, partID, "text"), Text: p.Text.String(), Synthetic: true, Ignored: true, Time: when}
		if p.Notice != nil {
			t.Text = p.Notice.Text
			t.Metadata = map[string]any{"notice": map[string]string{"level": p.Notice.Level, "code": p.Notice.Code}}
		}
		return t
	}
	return textPart{partHead: v.head(s.id, partID, "text"), Text: p.Text.String(), Time: when}
}

// toolNames are the tools that this protocol's clients draw in their own way;
// agents spell them in other cases.
var toolNames = map[string]bool{"bash": true, "read": true, "write": true, "edit": true, "glob": true, "grep": true, "list": true,
	"webfetch": true, "websearch": true, "task": true, "todowrite": true, "question": true}

func toolName(name string) string {
	if lower := strings.ToLower(name); toolNames[lower] {
		return lower
	}
	if name == "" {
		return "tool"
	}
	return name
}

// tool is a call. Clients read the input from the running state on, also while
// a permission is asked, so a call whose input is whole counts as running.
func (v view) tool(s *step, p *event.Part, partID string) toolPart {
	t := p.Tool
	out := toolPart{partHead: v.head(s.id, partID, "tool"), CallID: t.Call, Tool: toolName(t.Name)}
	st := &out.State
	if t.Status == event.CallStreaming {
		raw := t.PartialInput.String()
		st.Status, st.Raw, st.Input = "pending", &raw, json.RawMessage("{}")
		return out
	}
	st.Input = inputOf(t)
	st.Time = &span{Start: millis(p.StartedAt)}
	st.Metadata = v.toolMetadata(p)
	title := t.Title
	if title == "" {
		title = out.Tool
	}
	if !t.Status.Ended() {
		st.Status, st.Title = "running", &title
		return out
	}
	st.Time.End = millis(p.EndedAt)
	if t.Status == event.CallDone {
		output := t.Output.String()
		st.Status, st.Output, st.Title = "completed", &output, &title
		return out
	}
	why := callError(t)
	st.Status, st.Error = "error", &why
	return out
}

// callError says why a call gave no result.
func callError(t *event.Tool) string {
	switch {
	case t.Refused != nil && t.Refused.Reason != "":
		return "The call was refused: " + t.Refused.Reason
	case t.Refused != nil && t.Refused.Code == event.RefusedTimeout:
		return "The call was refused: nobody answered in time"
	case t.Status == event.CallDenied:
		return "The call was refused"
	case t.Error != "":
		return t.Error
	case t.Status == event.CallCancelled:
		return "The call was aborted"
	case t.Output.Len() > 0:
		return t.Output.String()
	}
	return "The call failed"
}

func (v view) toolMetadata(p *event.Part) map[string]any {
	t := p.Tool
	m := map[string]any{}
	if t.Output.Len() > 0 {
		m["output"] = tail(t.Output)
	}
	if t.ExitCode != nil {
		m["exit"] = *t.ExitCode
	}
	if t.Dropped > 0 {
		m["truncated"] = true
	}
	if !t.Child.IsNil() {
		m["sessionId"], m["parentSessionId"] = sessionID(t.Child), v.session
	}
	if len(t.Edits) > 0 {
		m["filepath"], m["diagnostics"] = t.Edits[0].Path, struct{}{}
		m["diff"] = joinPatches(t.Edits)
	}
	return m
}

// tail is the end of an output, cut at a character.
func tail(t event.Text) string {
	from := max(0, t.Len()-maxToolOutput)
	s := t.From(from)
	for from > 0 && s != "" && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

func joinPatches(edits []event.FileEdit) string {
	if len(edits) == 1 {
		return edits[0].Patch
	}
	var b strings.Builder
	for _, e := range edits {
		b.WriteString(e.Patch)
		if e.Patch != "" && !strings.HasSuffix(e.Patch, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func mimeOf(a *event.Attachment) string {
	switch {
	case a.MIME != "":
		return a.MIME
	case a.Kind == event.AttachImage:
		return "image/png"
	case a.Kind == event.AttachText || a.Text != "":
		return "text/plain"
	}
	return "application/octet-stream"
}

// url is where a client finds an attachment's content: a file, or the content
// itself unless that is too much to show with every message.
func (v view) url(a *event.Attachment) string {
	data := a.Data
	switch {
	case a.Path != "":
		return (&url.URL{Scheme: "file", Path: a.Path}).String()
	case a.Text != "":
		data = []byte(a.Text)
	case a.Blob != "" && a.Size <= maxInline && v.blob != nil:
		data = v.blob(a.Blob)
	}
	return "data:" + mimeOf(a) + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// blob reads stored content; what cannot be read is shown empty.
func (f *server) blob(name string) []byte {
	ctx, cancel := context.WithTimeout(f.ctx, blobWithin)
	defer cancel()
	b, err := f.host.Blob(ctx, name)
	if err != nil {
		f.log.Warn("attachment could not be read", "blob", name, "err", err)
	}
	return b
}

// sentParts is what a prompt of this front keeps of its own form.
type sentParts struct {
	Parts []partInput `json:"parts"`
}

// userParts are the parts of a user message: as they were sent, if they were
// sent here.
func (v view) userParts(m *event.Message, synthetic bool) []any {
	messageID := userMessageID(m)
	if m.By.Front == Name && len(m.Rich) > 0 {
		var sent sentParts
		if json.Unmarshal(m.Rich, &sent) == nil && len(sent.Parts) > 0 {
			return v.sent(messageID, m, sent.Parts)
		}
	}
	head := func(n int, kind string) partHead {
		return v.head(messageID, nth(m.ID, n).Cognitio(prefixPart), kind)
	}
	out := []any{textPart{partHead: head(0, "text"), Text: m.Text, Synthetic: synthetic}}
	for i := range m.Attachments {
		a := &m.Attachments[i]
		out = append(out, filePart{partHead: head(i+1, "file"), MIME: mimeOf(a), Filename: a.Name, URL: v.url(a)})
	}
	return out
}

// sent shows parts as their client sent them. The content of data URLs is in
// the message's attachments, in order.
func (v view) sent(messageID string, m *event.Message, parts []partInput) []any {
	out := make([]any, 0, len(parts))
	for i := range parts {
		p := &parts[i]
		partID := p.ID
		if partID == "" {
			partID = nth(m.ID, i).Cognitio(prefixPart)
		}
		head := v.head(messageID, partID, p.Type)
		switch p.Type {
		case "file":
			link := p.URL
			if p.Attachment > 0 && p.Attachment <= len(m.Attachments) {
				link = v.url(&m.Attachments[p.Attachment-1])
			}
			out = append(out, filePart{partHead: head, MIME: p.MIME, Filename: p.Filename, URL: link, Source: p.Source})
		case "agent":
			out = append(out, agentPart{partHead: head, Name: p.Name, Source: p.Source})
		default:
			out = append(out, textPart{partHead: head, Text: p.Text, Synthetic: p.Synthetic, Ignored: p.Ignored})
		}
	}
	return out
}
