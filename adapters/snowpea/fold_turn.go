package snowpea

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// messageRich is what this front keeps with a message of its own.
type messageRich struct {
	// Steer: it came by session.steer.
	Steer bool `json:"steer,omitempty"`
	// Reason is why session.continue started the turn.
	Reason string `json:"reason,omitempty"`
	// Pages are the page attachments as they are listed; the agent gets
	// their text.
	Attachments []userAttachment `json:"attachments,omitempty"`
}

func richOf(m *event.Message) messageRich {
	var r messageRich
	if m.By.Front == frontName && len(m.Rich) > 0 {
		_ = json.Unmarshal(m.Rich, &r) // ours: anything else reads as nothing special
	}
	return r
}

// turnKey is the turnId of the turn that a message opens.
func turnKey(m, turn id.ID) string {
	if m.IsNil() {
		return turn.String()
	}
	return m.String()
}

func (f *fold) queued(c *chatFold, b *event.MessageQueued, at time.Time) {
	w := waiting{ID: b.Message.ID, Steer: b.Steer, Quiet: richOf(&b.Message).Steer}
	c.Waiting = append(c.Waiting, w)
	if !w.Quiet {
		n := len(c.Waiting)
		f.emit(c, "turn.queued", turnQueued{TurnID: w.ID.String(), Position: n, Queued: n}, at)
	}
}

func (f *fold) dequeued(c *chatFold, b *event.MessageRemoved, at time.Time) {
	i := slices.IndexFunc(c.Waiting, func(w waiting) bool { return w.ID == b.ID })
	if i < 0 {
		return
	}
	w := c.Waiting[i]
	c.Waiting = slices.Delete(c.Waiting, i, i+1)
	if b.Why == event.RemovedSteered {
		c.Taken = &w // announced behind its message.user
		return
	}
	if w.Quiet {
		return
	}
	turn := w.ID.String()
	if b.Why == event.RemovedStarted {
		f.emit(c, "turn.dequeued", turnDequeued{TurnID: turn, Reason: "started", Queued: len(c.Waiting)}, at)
		return
	}
	f.emit(c, "turn.dequeued", turnDequeued{TurnID: turn, Reason: "dropped", Queued: len(c.Waiting)}, at)
	f.emit(c, "turn.done", turnDone{TurnID: turn, Reason: "interrupted"}, at)
}

// resumedReason is why a turn starts that had failed, with a turnId that there
// was before.
const resumedReason = "resumed"

func newTurn(m *event.Message, turn id.ID) *turnFold {
	return &turnFold{Key: turnKey(m.ID, turn), Parts: map[id.ID]event.PartKind{}, Tools: map[id.ID]*toolFold{}}
}

// turnResumed starts a turn that had failed once more: nobody says anything.
func (f *fold) turnResumed(c *chatFold, b *event.TurnResumed, e *event.Event) {
	c.Turn = newTurn(&b.Message, e.Turn)
	f.emit(c, "turn.started", turnStarted{TurnID: c.Turn.Key, Initiator: "system", Reason: ptr(resumedReason)}, e.At)
}

func (f *fold) turnStarted(c *chatFold, b *event.TurnStarted, e *event.Event) {
	c.Turn = newTurn(&b.Message, e.Turn)
	c.Turns++
	if p := f.Chats[c.Parent]; c.Origin == event.OriginSubagent && p != nil && c.Turns == 1 {
		c.Turn.Announced = true
		f.emit(p, "subagent.spawn", subagentSpawn{AgentID: c.ID.String(), Name: c.agentName(), Title: c.Title,
			Task: b.Message.Text, Status: "running", SessionID: ptr(f.name(c.ID))}, e.At)
	}
	rich := richOf(&b.Message)
	system := b.Message.System && c.Origin != event.OriginSubagent // a subagent's task is its prompt
	started := turnStarted{TurnID: c.Turn.Key, Prompt: &b.Message.Text, Queued: b.FromQueue, Initiator: "user"}
	if system {
		started.Prompt, started.Initiator, started.Reason = nil, "system", ptr(rich.Reason)
	}
	f.emit(c, "turn.started", started, e.At)
	c.Chars += int64(len(b.Message.Text))
	if !system {
		f.emit(c, "message.user", userMessage(&b.Message, rich, false), e.At)
	}
}

func userMessage(m *event.Message, rich messageRich, steered bool) messageUser {
	u := messageUser{Text: m.Text, Attachments: rich.Attachments, Refs: []struct{}{}, Steered: steered}
	if u.Attachments == nil {
		u.Attachments = make([]userAttachment, len(m.Attachments))
		for i, a := range m.Attachments {
			u.Attachments[i] = userAttachment{Kind: a.Kind, Name: a.Name}
		}
	}
	return u
}

func (f *fold) partStarted(c *chatFold, p *event.Part, at time.Time) {
	t := c.Turn
	t.Parts[p.ID] = p.Kind
	switch p.Kind {
	case event.PartText, event.PartReasoning:
		f.text(c, p.Kind, p.Text.String(), at)
	case event.PartTool:
		if p.Tool == nil {
			return
		}
		t.Text = nil // what was said before a call is complete
		t.Rounds++
		t.Tools[p.ID] = &toolFold{Call: p.Tool.Call, Name: p.Tool.Name, Title: p.Tool.Title, Args: p.Tool.Input}
	case event.PartMessage:
		f.steered(c, p.Message, at)
	case event.PartNotice:
		f.notice(c, p.Notice, at)
	case event.PartImage:
		if p.Image != nil {
			f.note(c, fmt.Sprintf("The agent made an image: %s (%s, %d bytes).", p.Image.Name, p.Image.MIME, p.Image.Size), at)
		}
	}
}

// steered shows a message that the running turn takes in.
func (f *fold) steered(c *chatFold, m *event.Message, at time.Time) {
	if m == nil {
		return
	}
	c.Chars += int64(len(m.Text))
	f.emit(c, "message.user", userMessage(m, richOf(m), true), at)
	w := c.Taken
	c.Taken = nil
	if w == nil || w.Quiet {
		return
	}
	rest := 0
	for _, o := range c.Waiting {
		if o.Steer {
			rest++
		}
	}
	f.emit(c, "turn.dequeued", turnDequeued{TurnID: w.ID.String(), Reason: "steered", Queued: rest}, at)
}

func (f *fold) notice(c *chatFold, n *event.Notice, at time.Time) {
	if n == nil {
		return
	}
	switch {
	case n.Code == "truncated":
		c.Turn.Truncated = true
	case n.Code == "retry":
		c.Turn.Retries++
		f.emit(c, "hook.continue", hookContinue{Reason: n.Text, Count: c.Turn.Retries}, at)
	case n.Code == "compacted":
		f.emit(c, "compaction", compaction{Before: c.estimate(), After: c.estimate(), Auto: true}, at)
	case n.Level == "error":
		f.emit(c, "error", errorEvent{eventCode(n.Code), n.Text}, at)
	default:
		f.note(c, n.Text, at)
	}
}

// note is a remark that is not the agent's answer.
func (f *fold) note(c *chatFold, text string, at time.Time) {
	f.emit(c, "message.done", messageDone{Text: text, Role: "system"}, at)
}

func (f *fold) partEnded(c *chatFold, b *event.PartEnded, at time.Time) {
	if c.Turn.Parts[b.Part] != event.PartText {
		return
	}
	c.Turn.Text = append(c.Turn.Text, b.Text)
	f.childProgress(c, b.Text, at)
}

func (f *fold) usage(c *chatFold, b *event.UsageReported, e *event.Event) {
	u := b.Usage
	model := u.Model
	if model == "" {
		model = f.Settings.Model
	}
	if c.Turn != nil {
		c.Turn.Usage, c.Turn.LastUsage = c.Turn.Usage.Add(u), u
	}
	f.emit(c, "usage", usageEvent{Input: u.Input, Output: u.Output, Cached: ptr(u.CacheRead),
		Provider: ptr(f.Backend), Model: ptr(model), Timings: nullValue}, e.At)
	if f.spent != nil {
		f.spent(f.name(c.ID), e.Seq, e.At, u, f.Backend, model)
	}
}

func (f *fold) turnEnded(c *chatFold, b *event.TurnEnded, at time.Time) {
	t := c.Turn
	reason := doneReason(b)
	text := strings.Join(t.Text, "")
	switch reason {
	case "complete":
		f.emit(c, "message.done", messageDone{Text: text, Role: "assistant", Truncated: t.Truncated}, at)
	case "error":
		e := event.Error{Code: event.CodeAgentFailed, Message: "the agent failed without saying why"}
		if b.Error != nil {
			e = *b.Error
		}
		f.emit(c, "error", errorEvent{eventCode(e.Code), e.Message}, at)
	}
	f.emit(c, "context", f.context(c, t), at)
	f.emit(c, "turn.done", turnDone{TurnID: t.Key, Reason: reason, Synthetic: b.Synthetic}, at)
	if reason == "interrupted" && b.By.Front != "" && b.By.Front != event.Gateway.Front && !b.Synthetic {
		f.emit(c, "message.done", messageDone{Text: interruptedNote, Role: "system", MessageKind: "interrupted"}, at)
	}
	c.Turn, c.Taken = nil, nil
	if p := f.Chats[c.Parent]; t.Announced && p != nil {
		f.childDone(c, p, t, reason, text, at)
	}
}

// interruptedNote follows a turn that a person stopped.
const interruptedNote = "Stopped. Say how to go on."

// doneReason is how the protocol names the end of a turn.
func doneReason(b *event.TurnEnded) string {
	switch b.Status {
	case event.TurnComplete:
		return "complete"
	case event.TurnCancelled:
		return "interrupted"
	}
	if b.Error != nil {
		switch b.Error.Code {
		case event.CodeInterrupted:
			return "interrupted"
		case event.CodeRefusals:
			return "denied"
		}
	}
	if b.Synthetic {
		return "interrupted"
	}
	return "error"
}

func (f *fold) context(c *chatFold, t *turnFold) contextEvent {
	x := contextEvent{Used: c.Used, Provider: ptr(f.Backend), Model: ptr(f.Settings.Model)}
	if t.LastUsage.Model != "" {
		x.Model = ptr(t.LastUsage.Model)
	}
	if c.Used == 0 {
		x.Estimated = true
		if x.Used = t.LastUsage.Input + t.LastUsage.Output; x.Used == 0 {
			x.Used = c.estimate()
		}
	}
	if c.Window > 0 {
		x.Window = &c.Window
		percent := math.Round(float64(x.Used)/float64(c.Window)*1000) / 10
		x.Percent = &percent
		w := c.Window
		x.Window = &w
	}
	return x
}

// estimate guesses the tokens of the conversation: four bytes each.
func (c *chatFold) estimate() int64 { return c.Chars / 4 }

func (c *chatFold) agentName() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Title
}

// childProgress tells the parent what its subagent just said or does.
func (f *fold) childProgress(c *chatFold, text string, at time.Time) {
	p := f.Chats[c.Parent]
	if !c.Turn.Announced || p == nil {
		return
	}
	text = cut(text, lastTextLimit)
	f.emit(p, "subagent.update", subagentUpdate{AgentID: c.ID.String(), Name: c.agentName(), Title: c.Title,
		Text: text, LastText: text, Status: "running", SessionID: ptr(f.name(c.ID)),
		Usage: &tokens{c.Turn.Usage.Input, c.Turn.Usage.Output}}, at)
}

func (f *fold) childDone(c, p *chatFold, t *turnFold, reason, text string, at time.Time) {
	status := "done"
	switch reason {
	case "interrupted":
		status = "interrupted"
	case "complete":
	default:
		status = "error"
	}
	names := slices.Compact(slices.Sorted(slices.Values(t.Refused)))
	if names == nil {
		names = []string{}
	}
	f.emit(p, "subagent.done", subagentDone{AgentID: c.ID.String(), Name: c.agentName(), Title: c.Title,
		OK: reason == "complete", Status: status, Reason: reason, Result: text, Summary: text, Rounds: t.Rounds,
		DeniedCalls: len(t.Refused), DeniedTools: names, SessionID: ptr(f.name(c.ID)),
		Usage: tokens{t.Usage.Input, t.Usage.Output}}, at)
}

func todosOf(items []event.PlanItem) todosUpdated {
	out := todosUpdated{Todos: make([]todo, len(items))}
	for i, p := range items {
		status := "pending"
		switch p.Status {
		case event.PlanActive:
			status = "in_progress"
		case event.PlanDone:
			status = "completed"
		}
		out.Todos[i] = todo{ID: p.ID, Content: p.Text, Status: status}
	}
	return out
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if len(s) <= n || runes(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
