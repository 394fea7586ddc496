package host

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// toolFrame is about a tool call.
func (s *Session) toolFrame(r *run, f *agentFrame) {
	c := r.calls[f.Call]
	if c == nil {
		if f.Kind == agent.ToolEnd || f.Kind == agent.ToolOutput || f.Call == "" {
			s.late++ // a call that was denied, or never began
			if f.Request != "" {
				r.answer(f.Request, event.Resolution{Outcome: event.Denied, By: event.Gateway})
			}
			return
		}
		c = s.toolStart(r, f)
	} else if f.Tool != nil {
		c.learn(f.Tool)
		s.knowOwn(r, c)
	}
	switch f.Kind {
	case agent.ToolInput:
		if !c.ready && f.Text != "" && c.size < MaxToolOutput {
			c.size += len(f.Text)
			r.emit(&event.PartDelta{Part: c.part, Field: event.FieldInput, Text: strings.ToValidUTF8(f.Text, "\uFFFD")})
		}
	case agent.Permission:
		s.permission(r, c, f)
	case agent.ToolRun:
		r.ready(c)
		if !c.running && s.ownTool(r, c) == nil { // of its own tools the gateway says when they run
			c.running = true
			running := &event.ToolRunning{Part: c.part, Allowed: "agent"}
			if owner, ok := s.servedTool(r, c); ok {
				running.Allowed, running.By = "client", owner
			}
			r.emit(running)
		}
	case agent.ToolOutput:
		r.output(c, f)
	case agent.ToolEnd:
		s.toolEnd(r, c, f.Result)
	case agent.ClientCall:
		s.clientCall(r, c, f)
	}
}

func (s *Session) toolStart(r *run, f *agentFrame) *call {
	r.closeText()
	c := &call{part: id.New(), id: f.Call}
	if len(c.id) < 16 || len(c.id) > MaxName { // short ids repeat within a session
		c.id = validPrefix(c.id, 64) + "-" + hex.EncodeToString(c.part[10:])
	}
	if f.Tool != nil {
		c.learn(f.Tool)
	}
	s.knowOwn(r, c)
	c.name = c.tool.Name
	r.calls[f.Call] = c
	owner, _ := s.toolOwner(r, c.name) // so that fronts can tell whose call it is from its beginning
	if c.tool.Tag == event.TagDelegate && c.tool.Server == "" && owner.Client == "" && s.host.can(s.work.Info.Backend).Subagents {
		c.worker = id.New()
	}
	r.emit(&event.PartStarted{Part: event.Part{ID: c.part, Kind: event.PartTool, StartedAt: s.at, Tool: &event.Tool{
		Call: c.id, Name: c.name, Title: c.tool.Title, Tag: c.tool.Tag, Server: c.tool.Server, Client: owner,
		Status: event.CallStreaming, Input: object(c.tool.Input), Worker: c.worker}}})
	return c
}

// learn takes what a later frame says of a call.
func (c *call) learn(t *agent.Tool) {
	n := *t
	if n.Name == "" {
		n.Name = c.tool.Name
	}
	if n.Title == "" {
		n.Title = c.tool.Title
	}
	if n.Tag == "" {
		n.Tag = c.tool.Tag
	}
	if n.Server == "" {
		n.Server = c.tool.Server
	}
	if n.Server == ToolServerName {
		n.Name = bareName(n.Name)
	}
	if n.Input == nil {
		n.Input = c.tool.Input
	}
	if n.Edits == nil {
		n.Edits = c.tool.Edits
	}
	c.tool = n
}

// ready completes the input of a call.
func (r *run) ready(c *call) {
	if c.ready {
		return
	}
	c.ready, c.size = true, 0
	input := object(c.tool.Input)
	if input == nil {
		input = json.RawMessage(`{}`)
		if p := r.s.part(r, c.part); p != nil {
			if streamed := object(json.RawMessage(p.Tool.PartialInput.String())); streamed != nil {
				input = streamed
			}
		}
	}
	c.tool.Input = input
	r.emit(&event.ToolReady{Part: c.part, Input: input, Title: c.tool.Title, Tag: c.tool.Tag, Edits: clipEdits(c.tool.Edits)})
}

// output streams what a call writes, up to its bound: then only the end of it
// is kept, for the call's end.
func (r *run) output(c *call, f *agentFrame) {
	r.ready(c)
	text := strings.ToValidUTF8(f.Text, "\uFFFD")
	if room := KeepHead - c.size; len(text) > room {
		head := validPrefix(text, max(0, room))
		c.tail = append(c.tail, text[len(head):]...)
		if over := len(c.tail) - (MaxToolOutput - KeepHead); over > MaxToolOutput-KeepHead {
			c.dropped += int64(over)
			c.tail = append(c.tail[:0], c.tail[over:]...)
		}
		text = head
	}
	if text == "" {
		return
	}
	c.size += len(text)
	field := event.FieldOutput
	if f.Stderr {
		field = event.FieldStderr
	}
	r.emit(&event.PartDelta{Part: c.part, Field: field, Text: text})
}

// progress says what a running call does, once for each line.
func (s *Session) progress(r *run, f *agentFrame) {
	c := r.calls[f.Call]
	if c == nil || !c.running {
		return
	}
	text, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(f.Text, "\uFFFD")), "\n")
	text = validPrefix(text, MaxProgress)
	if p := s.part(r, c.part); p == nil || text == "" || p.Tool.Progress == text {
		return
	}
	r.emit(&event.ToolProgress{Part: c.part, Text: text})
}

// output puts the streamed head and the kept end together.
func (c *call) output(head string) string {
	if over := len(c.tail) - (MaxToolOutput - KeepHead); over > 0 {
		c.dropped += int64(over)
		c.tail = c.tail[over:]
	}
	return head + strings.ToValidUTF8(string(c.tail), "")
}

func (s *Session) toolEnd(r *run, c *call, res *agent.Result) {
	if res == nil {
		res = &agent.Result{}
	}
	r.ready(c)
	if c.stop != nil {
		c.stop()
	}
	if !c.running && !res.Denied {
		c.running = true
		r.emit(&event.ToolRunning{Part: c.part, Allowed: "agent"})
	}
	for ix, q := range r.requests {
		if q.call == c {
			if i := s.work.Interaction(ix); i != nil {
				s.settle(i, event.Resolution{Outcome: event.Cancelled, By: event.Actor{Front: "agent"}})
			}
		}
	}
	end := &event.ToolEnded{Part: c.part, Status: event.CallDone, ExitCode: res.ExitCode, Edits: clipEdits(res.Edits)}
	if res.Output != "" {
		end.Output, end.Dropped = clipOutput(res.Output)
	} else if p := s.part(r, c.part); p != nil {
		end.Output = c.output(p.Tool.Output.String())
		end.Dropped = c.dropped
	}
	switch {
	case res.Denied:
		end.Status, end.Error = event.CallDenied, res.Error
		end.Refused = &event.Refusal{Code: event.RefusedByMode, Reason: res.Error, By: event.Actor{Front: "agent"}}
	case res.Failed:
		end.Status, end.Error = event.CallFailed, res.Error
	}
	for key, open := range r.calls {
		if open == c {
			delete(r.calls, key)
		}
	}
	r.emit(end)
}
