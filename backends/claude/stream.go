package claude

import (
	"encoding/json"
	"strconv"

	"github.com/polyhost/polyhost/core/agent"
)

// event is a piece of a message of the main conversation.
func (m *mapper) event(e *streamEvent) {
	switch e.Type {
	case "message_start":
		m.closeBlocks()
		if e.Message != nil {
			m.message = e.Message.ID
			m.streamed[m.message] = true
			m.usage.at(e.Message.Model, e.Message.Usage)
		}
	case "content_block_start":
		if e.Block == nil || len(m.blocks) >= maxCalls {
			return
		}
		b := &stream{part: m.message + ":" + strconv.Itoa(e.Index)}
		m.blocks[e.Index] = b
		switch e.Block.Type {
		case "text":
			b.kind = agent.TextDelta
			m.delta(b, e.Block.Text)
		case "thinking":
			b.kind = agent.ReasoningDelta
			m.delta(b, e.Block.Thinking)
		case "tool_use":
			b.kind, b.call = agent.ToolInput, e.Block.ID
			m.startCall("", e.Block.ID, e.Block.Name, nil)
		}
	case "content_block_delta":
		b := m.blocks[e.Index]
		if b == nil || e.Delta == nil {
			return
		}
		switch e.Delta.Type {
		case "text_delta":
			m.delta(b, e.Delta.Text)
		case "thinking_delta":
			m.delta(b, e.Delta.Thinking)
		case "input_json_delta":
			m.delta(b, e.Delta.JSON)
		}
	case "content_block_stop":
		m.closeBlock(e.Index)
	case "message_delta":
		m.usage.more(e.Usage)
	case "message_stop":
		m.closeBlocks()
	}
}

func (m *mapper) delta(b *stream, text string) {
	if text == "" || b.kind == "" {
		return
	}
	b.some = true
	f := agent.Frame{Kind: b.kind, Part: b.part, Text: text}
	if b.kind == agent.ToolInput {
		f.Part, f.Call = "", b.call
	}
	m.put(f)
}

func (m *mapper) closeBlock(index int) {
	b := m.blocks[index]
	if b == nil {
		return
	}
	delete(m.blocks, index)
	if b.some && b.kind != agent.ToolInput {
		m.put(agent.Frame{Kind: agent.PartDone, Part: b.part})
	}
}

func (m *mapper) closeBlocks() {
	for i := range m.blocks {
		m.closeBlock(i)
	}
}

// assistant is a whole block of a message: of a streamed one only the calls
// are news.
func (m *mapper) assistant(r *record) {
	var msg message
	if json.Unmarshal(r.Message, &msg) != nil || !m.open {
		return
	}
	child := m.speaker(r)
	told := child == "" && m.streamed[msg.ID] || r.IsAPIError
	for i, b := range blocks(msg.Content) {
		part := r.UUID + ":" + strconv.Itoa(i)
		switch {
		case b.Type == "text" && b.Text != "" && !told:
			m.put(agent.Frame{Kind: agent.TextDelta, Child: child, Part: part, Text: b.Text},
				agent.Frame{Kind: agent.PartDone, Child: child, Part: part})
		case b.Type == "thinking" && b.Thinking != "" && !told:
			m.put(agent.Frame{Kind: agent.ReasoningDelta, Child: child, Part: part, Text: b.Thinking},
				agent.Frame{Kind: agent.PartDone, Child: child, Part: part})
		case b.Type == "tool_use":
			if c := m.startCall(child, b.ID, b.Name, object(b.Input)); c != nil && c.edits == nil && !m.past {
				c.edits = editsOf(m.dirs, c.name, c.tool.Input)
			}
		}
	}
}

// startCall makes a call known, or takes the whole input of one that is.
func (m *mapper) startCall(child, id, name string, input json.RawMessage) *call {
	c := m.calls[id]
	if c == nil {
		if id == "" || len(m.calls) >= maxCalls {
			return nil
		}
		c = &call{id: id, child: child, name: name, tool: describe(name, input)}
		m.calls[id] = c
		m.put(agent.Frame{Kind: agent.ToolStart, Child: child, Call: id, Tool: c.about()})
		return c
	}
	if input != nil {
		c.tool = describe(c.name, input)
	}
	return c
}

// about is what to tell of the call in a frame of its own.
func (c *call) about() *agent.Tool {
	t := c.tool
	return &t
}
