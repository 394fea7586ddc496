package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// mapper turns the CLI's records into frames. It is not safe for concurrent
// use and does no input or output but reading the files that edits are about.
type mapper struct {
	dirs []string

	// What a record leads to, taken by take.
	frames   []agent.Frame
	replies  [][]byte          // lines for the CLI
	answered []controlResponse // answers to requests of ours

	// The turn. One of the gateway's turns may be several of the CLI's: it
	// ends with the first result when nothing that was sent waits, and no
	// subagent works in the background.
	turn        string
	open        bool
	past        bool // the turn is read from a transcript
	self        bool // the CLI began it
	running     bool // the CLI is at work
	interrupted bool
	held        *agent.Frame    // the end that waits for subagents
	sent        map[string]sent // by uuid: what the CLI has not begun with
	lifecycle   bool            // the CLI says when it begins with a message
	why         string          // what background work ended last
	failure     string          // what a result outside of a turn said

	session string // the conversation's id as told
	place   string // the turn's newest record that the CLI keeps

	message  string          // id of the model's message that streams
	streamed map[string]bool // messages of this turn that were streamed
	blocks   map[int]*stream
	calls    map[string]*call
	asks     map[string]*ask
	children map[string]*child // by the call that spawned them
	plan     plan
	usage    usage
	extras   extras
	tasks    []task                // what the CLI goes on with
	begun    map[string]agent.Work // what is known of these, by task
}

// sent is a message that was handed to the CLI.
type sent struct {
	message string
	steer   bool
}

// stream is a content block that streams.
type stream struct {
	kind agent.FrameKind
	part string
	call string
	some bool
}

// call is a tool call that has not ended.
type call struct {
	id      string
	child   string
	name    string // the CLI's
	tool    agent.Tool
	asked   bool
	running bool
	denied  bool
	reason  string
	edits   []event.FileEdit
}

// ask is a request of the CLI that waits for an answer.
type ask struct {
	call      *call
	input     json.RawMessage
	questions []event.QuestionItem
}

type child struct{ background, ended bool }

func newMapper(dirs []string) *mapper {
	m := &mapper{dirs: dirs, sent: map[string]sent{}, plan: plan{}, usage: newUsage()}
	m.clear()
	return m
}

// clear forgets what belongs to a turn.
func (m *mapper) clear() {
	m.place = ""
	m.message, m.streamed, m.blocks = "", map[string]bool{}, map[int]*stream{}
	m.calls, m.asks, m.children = map[string]*call{}, map[string]*ask{}, map[string]*child{}
}

func (m *mapper) put(f ...agent.Frame) { m.frames = append(m.frames, f...) }

func (m *mapper) take() (frames []agent.Frame, replies [][]byte, answered []controlResponse) {
	frames, replies, answered = m.frames, m.replies, m.answered
	m.frames, m.replies, m.answered = nil, nil, nil
	return frames, replies, answered
}

// notice is a remark in the turn.
func (m *mapper) notice(level, code, text string) {
	if m.open {
		m.put(agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: level, Code: code, Text: text}})
	}
}

// begin opens a turn for a prompt that is sent with the uuid.
func (m *mapper) begin(turn, uuid string) {
	m.turn, m.open, m.self, m.interrupted = turn, true, false, false
	m.sent[uuid] = sent{}
}

// streamed is how most lines begin.
var streamed = []byte(`{"type":"stream_event",`)

// record takes one line. An error means that it is no record.
func (m *mapper) record(line []byte) error {
	if bytes.HasPrefix(line, streamed) {
		var r streamRecord
		if json.Unmarshal(line, &r) == nil && r.Event != nil {
			m.streams(r.SessionID, r.Parent, r.Event)
			return nil
		}
	}
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		// A field of another type is one that a later version changed: the
		// rest is read all the same.
		var other *json.UnmarshalTypeError
		if !errors.As(err, &other) {
			return err
		}
	}
	switch r.Type {
	case "assistant", "user":
		m.identify(r.SessionID)
		if m.open && r.Parent == "" && !r.IsReplay {
			m.place = r.UUID
		}
	}
	switch r.Type {
	case "stream_event":
		if r.Event != nil {
			m.streams(r.SessionID, r.Parent, r.Event)
		}
	case "assistant":
		m.assistant(&r)
	case "user":
		m.user(&r)
	case "system":
		m.system(&r)
	case "result":
		m.result(&r)
	case "command_lifecycle":
		m.progress(&r)
	case "control_request":
		m.request(&r)
	case "control_cancel_request":
		if a := m.asks[r.RequestID]; a != nil {
			delete(m.asks, r.RequestID)
			m.put(agent.Frame{Kind: agent.Withdrawn, Child: a.call.child, Request: r.RequestID})
		}
	case "control_response":
		var c controlResponse
		if json.Unmarshal(r.Response, &c) == nil {
			m.answered = append(m.answered, c)
		}
	case "rate_limit_event":
		if l := r.RateLimit; l != nil && l.Status != "allowed" {
			text := "the account's limit " + l.Type + " is " + l.Status
			if l.ResetsAt > 0 {
				text += " until " + time.Unix(int64(l.ResetsAt), 0).UTC().Format(time.RFC3339)
			}
			m.notice("warning", "rate_limit", text)
		}
	}
	return nil
}

// streams is a piece of what the model says; a subagent's comes whole later.
func (m *mapper) streams(session, parent string, e *streamEvent) {
	m.identify(session)
	if parent == "" && m.open {
		m.event(e)
	}
}

// identify tells the conversation's id once the CLI has kept something of it.
func (m *mapper) identify(session string) {
	if m.open && session != "" && session != m.session {
		m.session, m.place = session, ""
		m.put(agent.Frame{Kind: agent.ConversationID, Text: session})
	}
}

// progress: the CLI begins with a message, or gives it back.
func (m *mapper) progress(r *record) {
	m.lifecycle = true
	s, ok := m.sent[r.CommandUUID]
	if !ok {
		return
	}
	switch r.State {
	case "started":
		delete(m.sent, r.CommandUUID)
		m.running = true
		if s.steer {
			m.put(agent.Frame{Kind: agent.Steered, Message: s.message})
		}
	case "cancelled", "completed":
		delete(m.sent, r.CommandUUID)
		if s.steer {
			m.put(agent.Frame{Kind: agent.Unsteered, Message: s.message})
		} else if m.open && !m.running {
			m.finish(agent.Frame{Kind: agent.TurnEnd, Status: event.TurnCancelled})
		}
	}
}

func (m *mapper) system(r *record) {
	switch r.Subtype {
	case "init":
		m.running = true
		m.usage.model = r.Model
		m.extend(r)
		if !m.open && len(m.sent) == 0 {
			m.turn, m.open, m.self, m.interrupted = "", true, true, false
			m.put(agent.Frame{Kind: agent.TurnStart, Text: m.why})
		}
	case "api_retry":
		what := text(r.Error)
		if r.ErrorStatus > 0 {
			what = strconv.Itoa(r.ErrorStatus) + " " + what
		}
		m.notice("warning", "retry", fmt.Sprintf("the model call failed (%s): try %d of %d in %.1f s", what, r.Attempt, r.MaxRetries, r.RetryDelayMS/1000))
	case "compact_boundary":
		note := "the conversation was shortened"
		if c := r.CompactMeta; c != nil && c.PreTokens > 0 {
			note += fmt.Sprintf(" from %d tokens", c.PreTokens)
		}
		m.notice("info", "compacted", note)
	case "informational":
		if t := text(r.Content); t != "" {
			m.notice("info", "agent", t)
		}
	case "session_title_changed":
		m.put(agent.Frame{Kind: agent.Title, Text: r.Title})
	case "permission_denied":
		if c := m.calls[r.ToolUseID]; c != nil {
			c.denied, c.reason = true, text(r.Message)
		}
	case "background_tasks_changed":
		m.tasks = r.Tasks[:min(len(r.Tasks), maxTasks)]
		m.goesOn()
	case "task_started":
		m.taskStarted(r)
		m.began(r)
	case "task_progress":
		if c := m.calls[r.ToolUseID]; c != nil && r.Description != "" {
			m.put(agent.Frame{Kind: agent.Progress, Child: c.child, Call: r.ToolUseID, Text: r.Description})
		}
	case "task_notification":
		m.why = r.Summary
		m.taskEnded(r)
	}
}

// text is raw if it is a JSON string, else "".
func text(raw json.RawMessage) string {
	var s string
	if !bytes.HasPrefix(raw, []byte(`"`)) || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// finish ends the turn with its one end.
func (m *mapper) finish(end agent.Frame) {
	if !m.open {
		return
	}
	m.closeBlocks()
	for id, a := range m.asks {
		m.put(agent.Frame{Kind: agent.Withdrawn, Child: a.call.child, Request: id})
	}
	for uuid, s := range m.sent {
		delete(m.sent, uuid)
		if s.steer {
			m.put(agent.Frame{Kind: agent.Unsteered, Message: s.message})
		}
	}
	end.Turn, end.Point = m.turn, m.place
	if m.interrupted && end.Status != event.TurnCancelled {
		end.Status, end.Error = event.TurnCancelled, nil
	}
	m.put(end)
	m.turn, m.open, m.self, m.held, m.interrupted = "", false, false, nil, false
	m.clear()
}

// died: the CLI has ended, and how.
func (m *mapper) died(how string) {
	m.running, m.lifecycle = false, false
	m.place = "" // it may not have been written down
	m.finish(agent.Frame{Kind: agent.TurnEnd, Status: event.TurnFailed, Error: &event.Error{Code: event.CodeAgentDied, Message: how}})
	clear(m.sent)
	m.tasks, m.begun = nil, nil
}
