package snowpea

import (
	"fmt"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// fold turns the core events of one session into numbered Snowpea events. It
// depends on nothing but the events, so folding the log again gives the same
// numbers. The exported fields are what a mark stores.
type fold struct {
	Session  id.ID               `json:"session"`
	Seq      uint64              `json:"seq"` // of the core event folded last
	Backend  string              `json:"backend"`
	Dir      string              `json:"dir"`
	Default  id.ID               `json:"default"`
	Settings event.Settings      `json:"settings"`
	Owner    string              `json:"owner,omitempty"` // hostToolsFrom
	At       time.Time           `json:"at"`              // of that event
	Chats    map[id.ID]*chatFold `json:"chats"`

	// publish takes each event with its frame; nil while only numbers count.
	publish func(chat id.ID, seq uint64, message []byte)
	// spent takes each usage report; nil in replays.
	spent func(chat string, seq uint64, at time.Time, u event.Usage, provider, model string)
	// catalogue tells what a backend offers; nil in tests of the numbering.
	catalogue func(backend string) agent.Info
}

// chatFold is one Snowpea session.
type chatFold struct {
	ID     id.ID     `json:"id"`
	Seq    uint64    `json:"seq"` // of the newest Snowpea event
	Origin string    `json:"origin"`
	Parent id.ID     `json:"parent,omitzero"`
	Name   string    `json:"name,omitempty"`
	Title  string    `json:"title,omitempty"`
	Turns  int       `json:"turns,omitempty"` // started
	Turn   *turnFold `json:"turn,omitempty"`
	// Waiting are the prompts of turn.queued, oldest first.
	Waiting []waiting `json:"waiting,omitempty"`
	// Taken is the prompt that the running turn is about to take in.
	Taken *waiting `json:"taken,omitempty"`
	// Used and Window are what the agent last said of its context; Chars is
	// the length of the conversation, for an estimate when it says nothing.
	Used   int64 `json:"used,omitempty"`
	Window int64 `json:"window,omitempty"`
	Chars  int64 `json:"chars,omitempty"`

	head []byte // start of every frame
}

// waiting is a prompt in the queue.
type waiting struct {
	ID    id.ID `json:"id"`
	Steer bool  `json:"steer,omitempty"`
	// Quiet: it came by session.steer, which announces no queueing.
	Quiet bool `json:"quiet,omitempty"`
}

// turnFold is a running turn.
type turnFold struct {
	Key       string                   `json:"key"` // turnId
	Text      []string                 `json:"text,omitempty"`
	Reasoned  int                      `json:"reasoned,omitempty"`
	Parts     map[id.ID]event.PartKind `json:"parts,omitempty"`
	Tools     map[id.ID]*toolFold      `json:"tools,omitempty"`
	Truncated bool                     `json:"truncated,omitempty"`
	Retries   int                      `json:"retries,omitempty"`
	Rounds    int                      `json:"rounds,omitempty"`
	Usage     event.Usage              `json:"usage,omitzero"`
	LastUsage event.Usage              `json:"last_usage,omitzero"`
	Refused   []string                 `json:"refused,omitempty"` // names of refused tools
	Announced bool                     `json:"announced,omitempty"`
}

// toolFold is a call that has not ended.
type toolFold struct {
	Call   string           `json:"call"`
	Name   string           `json:"name"`
	Title  string           `json:"title,omitempty"`
	Args   []byte           `json:"args,omitempty"`
	Edits  []event.FileEdit `json:"edits,omitempty"`
	Called bool             `json:"called,omitempty"` // tool.call went out
	Chunks int              `json:"chunks,omitempty"`
	Bytes  int              `json:"bytes,omitempty"`
	Capped bool             `json:"capped,omitempty"`
}

func newFold(session id.ID) *fold {
	return &fold{Session: session, Chats: map[id.ID]*chatFold{}}
}

// apply folds the next core event.
func (f *fold) apply(e *event.Event) {
	f.Seq = e.Seq
	if !e.At.IsZero() {
		f.At = e.At
	}
	switch b := e.Body.(type) {
	case *event.PartDelta:
		if b.Part.IsNil() {
			f.lost()
		} else if c := f.Chats[e.Chat]; c != nil && c.Turn != nil {
			f.delta(c, b, e.At)
		}
		return
	case *event.SessionCreated:
		f.created(b)
		return
	case *event.SessionUpdated:
		f.updated(b, e.At)
		return
	case *event.ChatAdded:
		c := &chatFold{ID: b.Info.ID, Origin: b.Info.Origin.Kind, Parent: b.Info.Origin.Chat,
			Name: b.Info.Agent, Title: b.Info.Title}
		f.Chats[b.Info.ID] = c
		if b.Turns > 0 {
			f.note(c, fmt.Sprintf("This conversation began elsewhere. Turns of it that the agent remembers: %d.", b.Turns), e.At)
		}
		return
	case *event.ChatRemoved:
		delete(f.Chats, e.Chat)
		return
	}
	c := f.Chats[e.Chat]
	if c == nil {
		return
	}
	switch b := e.Body.(type) {
	case *event.ChatUpdated:
		if b.Title != nil {
			c.Title = *b.Title
		}
	case *event.ChatTruncated:
		f.note(c, fmt.Sprintf("The last turns of this conversation were taken back, and the agent has forgotten them. Turns that are left: %d.", b.Turns), e.At)
	case *event.MessageQueued:
		f.queued(c, b, e.At)
	case *event.MessageRemoved:
		f.dequeued(c, b, e.At)
	case *event.PlanUpdated:
		f.emit(c, "todos.updated", todosOf(b.Items), e.At)
	case *event.ContextReported:
		c.Used, c.Window = b.Used, b.Window
	case *event.UsageReported:
		f.usage(c, b, e)
	case *event.TurnStarted:
		f.turnStarted(c, b, e)
	case *event.TurnResumed:
		f.turnResumed(c, b, e)
	default:
		if c.Turn != nil {
			f.inTurn(c, e)
		}
	}
}

func (f *fold) inTurn(c *chatFold, e *event.Event) {
	switch b := e.Body.(type) {
	case *event.PartStarted:
		f.partStarted(c, &b.Part, e.At)
	case *event.PartEnded:
		f.partEnded(c, b, e.At)
	case *event.ToolReady:
		if t := c.Turn.Tools[b.Part]; t != nil {
			t.Args, t.Edits = b.Input, b.Edits
			if b.Title != "" {
				t.Title = b.Title
			}
		}
	case *event.ToolRunning:
		if t := c.Turn.Tools[b.Part]; t != nil {
			if b.Input != nil {
				t.Args = b.Input
			}
			f.toolCalled(c, t, e.At)
		}
	case *event.ToolEnded:
		f.toolEnded(c, b, e.At)
	case *event.TurnEnded:
		f.turnEnded(c, b, e.At)
	}
}

// next gives the number of the next event of c.
func (c *chatFold) next() uint64 {
	c.Seq++
	return c.Seq
}

// emit numbers an event and, when somebody listens, encodes and publishes it.
func (f *fold) emit(c *chatFold, kind string, payload any, at time.Time) {
	seq := c.next()
	if f.publish != nil {
		f.publish(c.ID, seq, encodeEvent(f.headOf(c), seq, kind, payload, at))
	}
}

func (f *fold) headOf(c *chatFold) []byte {
	if c.head == nil {
		c.head = eventHead(f.name(c.ID), f.Owner)
	}
	return c.head
}

// name spells a chat as a Snowpea session id: the default chat has the
// session's own.
func (f *fold) name(chat id.ID) string {
	if chat == f.Default {
		return f.Session.String()
	}
	return chat.String()
}

// delta is the hot path.
func (f *fold) delta(c *chatFold, b *event.PartDelta, at time.Time) {
	switch b.Field {
	case event.FieldText:
		f.text(c, c.Turn.Parts[b.Part], b.Text, at)
	case event.FieldOutput:
		f.progress(c, c.Turn.Tools[b.Part], "stdout", b.Text, at)
	case event.FieldStderr:
		f.progress(c, c.Turn.Tools[b.Part], "stderr", b.Text, at)
	}
}

// lost stands for a number that a crash took from the log. A client may have
// seen an event under it, so every running turn counts on with an empty delta.
func (f *fold) lost() {
	for _, c := range f.inOrder(func(c *chatFold) bool { return c.Turn != nil }) {
		f.emit(c, "message.delta", messageDelta{}, f.At)
	}
}

func (f *fold) text(c *chatFold, kind event.PartKind, text string, at time.Time) {
	if text == "" {
		return
	}
	switch kind {
	case event.PartText:
		c.Chars += int64(len(text))
		if seq := c.next(); f.publish != nil {
			f.publish(c.ID, seq, encodeText(f.headOf(c), seq, text, at))
		}
	case event.PartReasoning:
		c.Turn.Reasoned += runes(text)
		if seq := c.next(); f.publish != nil {
			f.publish(c.ID, seq, encodeReasoning(f.headOf(c), seq, text, c.Turn.Reasoned, at))
		}
	}
}

// progress passes a call's output on until progressLimit bytes have gone out.
func (f *fold) progress(c *chatFold, t *toolFold, stream, chunk string, at time.Time) {
	if t == nil || t.Capped || chunk == "" {
		return
	}
	if t.Bytes += len(chunk); t.Bytes > progressLimit {
		t.Capped, chunk = true, ""
	}
	if seq := c.next(); f.publish != nil {
		f.publish(c.ID, seq, encodeProgress(f.headOf(c), seq, t, stream, chunk, t.Capped, at))
	}
	t.Chunks++
}

// info is what the session's backend offers; empty when nobody knows.
func (f *fold) info() agent.Info {
	if f.catalogue == nil {
		return agent.Info{}
	}
	return f.catalogue(f.Backend)
}
