package codex

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// mapper turns notifications into frames. It is a state machine without
// goroutines or input and output, apart from reading files that are about to
// change; the conversation guards it.
type mapper struct {
	log    *slog.Logger
	dirs   files.Dirs
	main   string // the conversation's own thread
	model  string // of the running turn, for usage
	serial int    // makes part ids unique over turns and retries

	threads map[string]*thread
	left    string         // the commands that the last turn left running
	rates   map[string]int // the highest threshold told of each rate window
}

// thread is one thread of the process: the conversation's or a subagent's.
type thread struct {
	id     string
	turn   string // the running turn's id, "" when none runs
	child  bool
	spoken string          // the item whose text is open
	part   string          // its part, "" when none is open
	index  int             // of a reasoning: which paragraph is open
	heard  map[string]bool // items of the turn whose text came in pieces
	calls  map[string]*callState
	total  *tokens // as last reported; nil is unknown
}

// callState is an open tool call.
type callState struct {
	item      item
	tool      agent.Tool
	running   bool
	asked     bool
	streamed  bool
	receivers bool // of a spawn: its subagent is known
}

func newMapper(log *slog.Logger, dirs []string) *mapper {
	return &mapper{log: log, dirs: dirs, threads: map[string]*thread{}, rates: map[string]int{}}
}

// open makes id the conversation's thread. A fresh one has used nothing yet.
func (m *mapper) open(id string, fresh bool) {
	t := &thread{id: id, heard: map[string]bool{}, calls: map[string]*callState{}}
	if fresh {
		t.total = &tokens{}
	}
	m.main = id
	m.threads = map[string]*thread{id: t}
}

// mine is the conversation's thread.
func (m *mapper) mine() *thread { return m.threads[m.main] }

// busyChildren are the subagents' threads with a running turn.
func (m *mapper) busyChildren() []*thread {
	var busy []*thread
	for _, t := range m.threads {
		if t.child && t.turn != "" {
			busy = append(busy, t)
		}
	}
	return busy
}

// child is the key of a thread's frames.
func (t *thread) key() string {
	if t.child {
		return t.id
	}
	return ""
}

// notification returns what one notification of a thread means. Ends of turns
// are the conversation's to tell, except those of subagents.
func (m *mapper) notification(method string, n *note) []agent.Frame {
	t, frames := m.thread(method, n)
	if t == nil {
		return nil
	}
	more := m.of(t, method, n)
	for i := range more {
		if more[i].Kind != agent.ChildStart { // that names the subagent, not who began it
			more[i].Child = t.key()
		}
	}
	return append(frames, more...)
}

// thread finds the thread a notification belongs to. An unknown one is a
// subagent that begins.
func (m *mapper) thread(method string, n *note) (*thread, []agent.Frame) {
	if t := m.threads[n.ThreadID]; t != nil {
		return t, nil
	}
	if n.ThreadID == "" || m.main == "" || m.mine().turn == "" || method != "turn/started" || len(m.threads) > maxChildren {
		return nil, nil
	}
	parent, spawn := m.mine(), (*callState)(nil)
	prompt := ""
	for _, t := range m.threads {
		for _, c := range t.calls {
			if c.item.Type == "collabAgentToolCall" && c.item.Tool == "spawnAgent" && !c.receivers {
				parent, spawn, prompt = t, c, c.item.Prompt
			}
		}
	}
	frames := m.begin(n.ThreadID, parent, spawn, "", prompt)
	return m.threads[n.ThreadID], frames
}

// begin follows a subagent's thread and says that its turn begins.
func (m *mapper) begin(id string, parent *thread, c *callState, name, prompt string) []agent.Frame {
	t := m.threads[id]
	if t == nil {
		t = &thread{id: id, child: true, heard: map[string]bool{}, calls: map[string]*callState{}, total: &tokens{}}
		m.threads[id] = t
	}
	t.turn = pendingTurn
	if name == "" {
		name = "subagent"
	}
	f := agent.Frame{Kind: agent.ChildStart, Child: id, Name: name, Text: prompt}
	if c != nil {
		c.receivers = true
		if !parent.child { // calls are looked for in the conversation's chat
			f.Call = c.item.ID
		}
	}
	return []agent.Frame{f}
}

// pendingTurn stands for the id of a subagent's turn that is about to begin.
const pendingTurn = "pending"

// of maps a notification of a known thread.
func (m *mapper) of(t *thread, method string, n *note) []agent.Frame {
	switch method {
	case "turn/started":
		if n.Turn == nil {
			return nil
		}
		var frames []agent.Frame
		if t.child && t.turn == "" && m.mine().turn != "" { // it was given more to do
			frames = m.begin(t.id, m.mine(), nil, "", "")
		}
		t.turn = n.Turn.ID
		return frames
	case "turn/completed":
		return m.completed(t, n)
	case "thread/tokenUsage/updated":
		return m.usage(t, n)
	case "thread/name/updated":
		if !t.child && n.ThreadName != "" {
			return []agent.Frame{{Kind: agent.Title, Text: n.ThreadName}}
		}
		return nil
	}
	if t.turn == "" || n.TurnID != "" && n.TurnID != t.turn && t.turn != pendingTurn {
		return nil // of a turn that is over: a command that lived on, a late word
	}
	switch method {
	case "item/started":
		return m.started(t, n)
	case "item/completed":
		return m.finished(t, n)
	case "item/agentMessage/delta", "item/plan/delta":
		return m.text(t, agent.TextDelta, n.ItemID, n.Delta)
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		return m.reasoning(t, n)
	case "item/commandExecution/outputDelta":
		return m.output(t, n)
	case "item/mcpToolCall/progress":
		return m.output(t, &note{ItemID: n.ItemID, Delta: n.Message + "\n"})
	case "turn/plan/updated":
		return []agent.Frame{{Kind: agent.Plan, Plan: plan(n.Plan)}}
	case "error":
		return m.retry(t, n)
	case "warning", "guardianWarning":
		return []agent.Frame{notice("warning", "agent_warning", n.Message)}
	case "model/rerouted":
		return []agent.Frame{notice("warning", "model_rerouted", fmt.Sprintf("%s answers instead of %s", n.ToModel, n.FromModel))}
	}
	return nil
}

// completed ends a thread's turn and everything open in it.
func (m *mapper) completed(t *thread, n *note) []agent.Frame {
	if n.Turn == nil || t.turn == "" || n.Turn.ID != t.turn && t.turn != pendingTurn {
		return nil
	}
	frames := m.closeText(t)
	if !t.child {
		m.left = t.commands()
	}
	t.over()
	if !t.child {
		return frames
	}
	end := agent.Frame{Kind: agent.ChildEnd}
	if n.Turn.Error != nil || n.Turn.Status == "failed" {
		end.Error = wentWrong(n.Turn.Error)
	} else if n.Turn.Status == "interrupted" {
		end.Error = &event.Error{Code: event.CodeInterrupted, Message: "the subagent was interrupted"}
	}
	return append(frames, end)
}

// commands are those of the thread that run.
func (t *thread) commands() string {
	var all []string
	for _, c := range t.calls {
		if c.running && c.item.Type == "commandExecution" {
			all = append(all, c.tool.Command)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// over forgets what belongs to a turn.
func (t *thread) over() {
	t.turn = ""
	clear(t.calls)
	clear(t.heard)
}

// text appends to a message or a reasoning, whose part begins with its first
// piece.
func (m *mapper) text(t *thread, kind agent.FrameKind, id, delta string) []agent.Frame {
	var frames []agent.Frame
	if t.spoken != id || t.part == "" {
		frames = m.closeText(t)
		m.serial++
		t.spoken, t.part = id, fmt.Sprintf("part_%d", m.serial)
		if len(t.heard) < maxOpenItems {
			t.heard[id] = true
		}
	}
	if delta == "" {
		return frames
	}
	return append(frames, agent.Frame{Kind: kind, Part: t.part, Text: delta})
}

// closeText ends the part that is open. A message that another one, a steering
// message or a retry cuts off gets no end from the program.
func (m *mapper) closeText(t *thread) []agent.Frame {
	if t.part == "" {
		return nil
	}
	f := agent.Frame{Kind: agent.PartDone, Part: t.part}
	t.spoken, t.part, t.index = "", "", 0
	return []agent.Frame{f}
}

// reasoning puts a paragraph break between the parts of a summary.
func (m *mapper) reasoning(t *thread, n *note) []agent.Frame {
	delta := n.Delta
	if t.spoken == n.ItemID && t.part != "" && n.SummaryIndex != t.index {
		delta = "\n\n" + delta
	}
	frames := m.text(t, agent.ReasoningDelta, n.ItemID, delta)
	t.index = n.SummaryIndex
	return frames
}

// started begins an item.
func (m *mapper) started(t *thread, n *note) []agent.Frame {
	it := n.Item
	if it == nil {
		return nil
	}
	switch it.Type {
	case "userMessage", "hookPrompt", "contextCompaction", "sleep", "enteredReviewMode", "exitedReviewMode", "functionCallOutput":
		return nil
	case "agentMessage", "reasoning", "plan":
		return m.closeText(t)
	case "subAgentActivity":
		return m.activity(t, it)
	}
	return m.startCall(t, it)
}

// finished ends an item. Its whole text makes good for deltas that never came.
func (m *mapper) finished(t *thread, n *note) []agent.Frame {
	it := n.Item
	if it == nil {
		return nil
	}
	switch it.Type {
	case "userMessage", "hookPrompt", "sleep", "enteredReviewMode", "functionCallOutput", "subAgentActivity":
		return nil
	case "agentMessage", "plan":
		return m.whole(t, agent.TextDelta, it.ID, it.Text)
	case "exitedReviewMode":
		return m.whole(t, agent.TextDelta, it.ID, it.Review)
	case "reasoning":
		return m.whole(t, agent.ReasoningDelta, it.ID, reasoningText(it))
	case "contextCompaction":
		return append(m.closeText(t), notice("info", "compacted", "the context was shortened"))
	}
	return m.endCall(t, it)
}

// whole ends a text. Texts may be interleaved, a plan inside of a message, so
// that the part that is open may be another's.
func (m *mapper) whole(t *thread, kind agent.FrameKind, id, text string) []agent.Frame {
	var frames []agent.Frame
	if !t.heard[id] && text != "" {
		frames = m.text(t, kind, id, text)
	}
	if t.spoken != id {
		return frames
	}
	return append(frames, m.closeText(t)...)
}

func reasoningText(it *item) string {
	parts := it.Summary
	if len(parts) == 0 {
		for _, c := range it.Content {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// retry tells of a try that failed. What was said in it is said again, so the
// part is closed. The last error comes again with the turn's end.
func (m *mapper) retry(t *thread, n *note) []agent.Frame {
	if !n.WillRetry || n.Error == nil {
		return nil
	}
	text := n.Error.Message
	if n.Error.Details != "" {
		text += ": " + n.Error.Details
	}
	return append(m.closeText(t), notice("warning", "retry", text))
}

// usage reports what was used since the report before: reports are repeated,
// so the sums are compared.
func (m *mapper) usage(t *thread, n *note) []agent.Frame {
	u := n.TokenUsage
	if u == nil {
		return nil
	}
	before := t.total
	total := u.Total
	t.total = &total
	if t.turn == "" || n.TurnID != t.turn && t.turn != pendingTurn {
		return nil // what the conversation used before it was resumed
	}
	used := u.Last
	if before != nil {
		used = tokens{Input: total.Input - before.Input, Cached: total.Cached - before.Cached, CacheWrite: total.CacheWrite - before.CacheWrite,
			Output: total.Output - before.Output, Reasoning: total.Reasoning - before.Reasoning}
	}
	var frames []agent.Frame
	if used.Input > 0 || used.Output > 0 {
		frames = append(frames, agent.Frame{Kind: agent.Usage, Usage: &event.Usage{Input: max(0, used.Input-used.Cached-used.CacheWrite),
			CacheRead: used.Cached, CacheWrite: used.CacheWrite, Output: used.Output, Reasoning: used.Reasoning, Model: m.model}})
	}
	if u.Last.Total > 0 {
		frames = append(frames, agent.Frame{Kind: agent.Context, Context: &event.ContextReported{Used: u.Last.Total, Window: u.Window}})
	}
	return frames
}

// limits tells once when a rate limit comes near or is reached.
func (m *mapper) limits(r *rateLimits) []agent.Frame {
	if r == nil || m.main == "" || m.mine().turn == "" {
		return nil
	}
	var frames []agent.Frame
	for name, w := range map[string]*rateWindow{"primary": r.Primary, "secondary": r.Secondary} {
		if w == nil {
			continue
		}
		level, step := "info", 0
		switch {
		case w.UsedPercent >= 100:
			level, step = "error", 100
		case w.UsedPercent >= rateHigh:
			level, step = "warning", rateHigh
		case w.UsedPercent >= rateWarn:
			step = rateWarn
		}
		if step > m.rates[name] {
			frames = append(frames, notice(level, "rate_limit", rateText(w)))
		}
		m.rates[name] = step
	}
	return frames
}

func rateText(w *rateWindow) string {
	text := fmt.Sprintf("%d %% of the rate limit is used", w.UsedPercent)
	if w.Minutes > 0 {
		text = fmt.Sprintf("%d %% of the limit for %s is used", w.UsedPercent, (time.Duration(w.Minutes) * time.Minute).String())
	}
	if w.ResetsAt > 0 {
		text += "; it is reset at " + time.Unix(w.ResetsAt, 0).UTC().Format(time.RFC3339)
	}
	return text
}

func notice(level, code, text string) agent.Frame {
	return agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: level, Code: code, Text: clip(text)}}
}

// clip cuts a text that is for people.
func clip(text string) string {
	if len(text) > maxNotice {
		text = strings.ToValidUTF8(text[:maxNotice], "") + " …"
	}
	return text
}

func plan(steps []planStep) []event.PlanItem {
	items := make([]event.PlanItem, 0, len(steps))
	for i, s := range steps {
		status := event.PlanPending
		switch s.Status {
		case "inProgress":
			status = event.PlanActive
		case "completed":
			status = event.PlanDone
		}
		items = append(items, event.PlanItem{ID: fmt.Sprint(i + 1), Text: s.Step, Status: status})
	}
	return items
}
