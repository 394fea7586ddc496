package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// What follows runs in the reader's goroutine: it may wait for the host to
// take frames, for no one else.

// say hands the mapper's frames over; they are dropped once the turn was
// interrupted, so that the agent's answer to that is never waited for in vain.
func (c *conversation) say() {
	frames := c.m.take()
	if len(frames) == 0 {
		return
	}
	c.mu.Lock()
	ctx := c.ctx
	if c.turn != nil && c.m.active {
		ctx = c.turn.ctx
	}
	c.mu.Unlock()
	_ = c.out.Put(ctx, frames...)
}

func (c *conversation) update(_ *link, u *update) {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	c.m.update(u)
	c.say()
}

func (c *conversation) tooLong(e *lines.TooLongError) {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	if c.m.active {
		c.m.put(agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: "warning", Code: "truncated",
			Text: fmt.Sprintf("the agent sent a message of %d bytes, which was left out", e.Length)}})
		c.say()
	}
}

// request answers what the agent wants of its client.
func (c *conversation) request(l *link, m *message) {
	switch m.Method {
	case "session/request_permission":
		c.permission(l, m)
	case "fs/read_text_file":
		c.readFile(l, m)
	case "fs/write_text_file":
		c.writeFile(l, m)
	case "$/cancel_request":
		c.withdraw(l, m.Params)
	default:
		if len(m.ID) > 0 {
			l.refuse(m.ID, codeNoMethod, "there is no "+m.Method)
		}
	}
}

// register keeps a request until it is answered, and names it.
func (c *conversation) register(q *ask) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil || c.turn.ctx.Err() != nil || len(c.asks) >= maxPending {
		return "", false
	}
	c.serial++
	name := fmt.Sprintf("ask_%d", c.serial)
	c.asks[name] = q
	return name, true
}

func (c *conversation) permission(l *link, m *message) {
	var p permissionRequest
	if decode(m.Params, &p) != nil || len(m.ID) == 0 {
		l.refuse(m.ID, codeBadParams, "a permission request is wanted")
		return
	}
	q := &ask{link: l, id: bytes.Clone(m.ID), options: p.Options}
	c.speaking.Lock()
	defer c.speaking.Unlock()
	if !c.m.active {
		q.cancel()
		return
	}
	call, frame := c.m.ask(&p.Call)
	if frame == nil {
		q.cancel()
		return
	}
	q.call = call
	if call.server == clientServer { // its client decides, when the call reaches it
		if o := choose(p.Options, true); o.ID != "" {
			call.ran = true // its input comes with the call itself, where the agent tells none
			c.say()
			l.answer(q.id, permissionAnswer{permissionOutcome{Outcome: "selected", Option: o.ID}})
			return
		}
	}
	c.pose(q, frame)
}

// pose asks the gateway.
func (c *conversation) pose(q *ask, frame *agent.Frame) {
	name, ok := c.register(q)
	if !ok {
		q.cancel()
		return
	}
	frame.Request = name
	c.m.put(*frame)
	c.say()
}

// withdraw takes a request back that the agent wants no answer to any more.
// It gets one all the same: some wait for it.
func (c *conversation) withdraw(l *link, params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if decode(params, &p) != nil {
		return
	}
	c.mu.Lock()
	var name string
	var q *ask
	for n, open := range c.asks {
		if open.link == l && bytes.Equal(open.id, p.ID) {
			name, q = n, open
			delete(c.asks, n)
		}
	}
	c.mu.Unlock()
	if q == nil {
		return
	}
	q.cancel()
	c.speaking.Lock()
	defer c.speaking.Unlock()
	c.m.put(agent.Frame{Kind: agent.Withdrawn, Request: name})
	c.say()
}

// readFile serves a file of the working directories. One that does not exist
// is empty: agents look before they write a new one.
func (c *conversation) readFile(l *link, m *message) {
	var p readRequest
	if decode(m.Params, &p) != nil || p.Path == "" {
		l.refuse(m.ID, codeBadParams, "a path is wanted")
		return
	}
	b, err := c.dirs.Load(p.Path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		l.refuse(m.ID, codeInternal, err.Error())
		return
	case len(b) > maxFile:
		l.refuse(m.ID, codeInternal, fmt.Sprintf("%s is larger than %d bytes", p.Path, maxFile))
		return
	}
	l.answer(m.ID, readAnswer{section(string(b), p.Line, p.Limit)})
}

// section cuts lines out of a text; the first line is 1.
func section(text string, line, limit *int) string {
	if line == nil && limit == nil {
		return text
	}
	skip, keep := 0, -1
	if line != nil {
		skip = max(0, *line-1)
	}
	if limit != nil {
		keep = max(0, *limit)
	}
	var b strings.Builder
	for one := range strings.Lines(text) {
		switch {
		case skip > 0:
			skip--
			continue
		case keep == 0:
			return b.String()
		}
		keep--
		b.WriteString(one)
	}
	return b.String()
}

// writeFile writes a file of the working directories: at once if a call that
// was allowed changes it, else like any write that somebody must allow.
func (c *conversation) writeFile(l *link, m *message) {
	var p writeRequest
	if decode(m.Params, &p) != nil || p.Path == "" {
		l.refuse(m.ID, codeBadParams, "a path and content are wanted")
		return
	}
	if len(p.Content) > maxFile {
		l.refuse(m.ID, codeInternal, fmt.Sprintf("more than %d bytes cannot be written", maxFile))
		return
	}
	q := &ask{link: l, id: bytes.Clone(m.ID), write: &p}
	if _, _, err := c.dirs.Locate(p.Path); err != nil {
		l.refuse(m.ID, codeInternal, err.Error())
		return
	}
	c.speaking.Lock()
	defer c.speaking.Unlock()
	if !c.m.active {
		q.cancel()
		return
	}
	if c.m.allowedWrite(p.Path) {
		c.write(q, true)
		return
	}
	c.mu.Lock()
	c.serial++
	id := fmt.Sprintf("write_%d_%s", c.serial, l.session)
	c.mu.Unlock()
	input, err := json.Marshal(map[string]string{"path": p.Path, "content": p.Content})
	if err != nil {
		q.cancel()
		return
	}
	content, err := json.Marshal([]map[string]string{{"type": "diff", "path": p.Path, "newText": p.Content}})
	if err != nil {
		q.cancel()
		return
	}
	call, frame := c.m.ask(&toolCall{ID: id, Name: "write_text_file", Title: p.Path, ToolKind: "edit", Status: "pending",
		Input: input, Content: content, Locations: []location{{Path: p.Path}}})
	if frame == nil {
		q.cancel()
		return
	}
	q.call = call
	c.pose(q, frame)
}

// write does it and tells the agent; the call that was made up for it ends.
func (c *conversation) write(q *ask, allowed bool) {
	if !allowed {
		q.cancel()
		return
	}
	err := c.dirs.Store(q.write.Path, q.write.Content)
	if err != nil {
		q.link.refuse(q.id, codeInternal, err.Error())
	} else {
		q.link.answer(q.id, nil)
	}
	if q.call == nil {
		return
	}
	c.speaking.Lock()
	defer c.speaking.Unlock()
	t := &toolCall{Status: "completed"}
	if err != nil {
		t.Status, t.Output = "failed", json.RawMessage(fmt.Sprintf("%q", err.Error()))
	}
	if !q.call.ended {
		c.m.endCall(q.call, t)
		c.say()
	}
}
