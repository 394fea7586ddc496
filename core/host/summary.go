package host

import (
	"cmp"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// Status is how a session or chat stands, in one word.
type Status string

const (
	Idle             Status = "idle"
	Running          Status = "running"
	AwaitingApproval Status = "awaiting_approval"
	AwaitingQuestion Status = "awaiting_question"
	Failed           Status = "failed" // the last turn ended in an error
)

// Summary is a session as lists show it. It is kept in memory for all
// sessions, live or not.
type Summary struct {
	Info       event.SessionInfo `json:"info"`
	ModifiedAt time.Time         `json:"modified_at"`
	Seq        uint64            `json:"seq"`
	Status     Status            `json:"status"`
	Approvals  int               `json:"approvals,omitempty"`
	Questions  int               `json:"questions,omitempty"`
	Queued     int               `json:"queued,omitempty"`
	// Activity is what the session does in one line, "" when it does nothing. When it
	// alone moves, the summary follows within a second or so.
	Activity   string           `json:"-"`
	LastPrompt string           `json:"last_prompt,omitempty"`
	Usage      event.Usage      `json:"usage,omitzero"`
	Chats      []ChatSummary    `json:"chats"`
	Default    id.ID            `json:"default"`
	LastTurn   event.TurnStatus `json:"last_turn,omitempty"`
	LastError  *event.Error     `json:"last_error,omitempty"`
	// Private: not announced, and not listed unless asked for.
	Private bool `json:"private,omitempty"`
	// Past: the session is a conversation of the agent's own whose turns were
	// not read yet. They are when the session is first opened.
	Past bool `json:"-"`
	// Live: the session is in memory.
	Live bool `json:"-"`
}

// ChatSummary is a chat as lists show it.
type ChatSummary struct {
	Info       event.ChatInfo `json:"info"`
	Status     Status         `json:"status"`
	ModifiedAt time.Time      `json:"modified_at"`
	Turns      int            `json:"turns"`
	Cuts       int            `json:"cuts,omitempty"`
}

// summarise makes the summary of a state.
func summarise(st *state.State, private bool) Summary {
	s := Summary{Info: st.Info, ModifiedAt: st.ModifiedAt, Seq: st.Seq, LastPrompt: st.LastPrompt,
		Usage: st.Usage, Default: st.Default, Private: private && st.Info.Provisional, Live: true,
		Activity: clipTitle(st.Doing())}
	if len(s.LastPrompt) > maxLastPrompt {
		s.LastPrompt = validPrefix(s.LastPrompt, maxLastPrompt)
	}
	approvals, questions := map[id.ID]int{}, map[id.ID]int{}
	for _, i := range st.Open {
		switch i.Kind {
		case event.Approval:
			s.Approvals++
			approvals[i.Chat]++
		case event.Question, event.SignIn:
			s.Questions++
			questions[i.Chat]++
		}
	}
	s.Chats = make([]ChatSummary, len(st.Chats))
	for i, c := range st.Chats {
		cs := ChatSummary{Info: c.ChatInfo, ModifiedAt: c.ModifiedAt, Turns: c.Count, Cuts: c.Cuts, Status: Idle}
		cs.Info.Brief = "" // long, and for the agent alone
		s.Queued += len(c.Queue) + len(c.Steering)
		last := lastTurn(c)
		switch {
		case approvals[c.ID] > 0:
			cs.Status = AwaitingApproval
		case questions[c.ID] > 0:
			cs.Status = AwaitingQuestion
		case c.Active != nil:
			cs.Status = Running
		case c.Failed():
			cs.Status = Failed
		}
		if c.ID == st.Default {
			s.Status = cs.Status
			if last != nil {
				s.LastTurn, s.LastError = last.Status, last.Error
			}
		}
		s.Chats[i] = cs
	}
	switch {
	case s.Approvals > 0:
		s.Status = AwaitingApproval
	case s.Questions > 0:
		s.Status = AwaitingQuestion
	case st.Running():
		s.Status = Running
	}
	return s
}

// MayAsk reports whether something in the session may wait for a person. The
// list is a moment behind its sessions: one that runs may have asked just now.
func (s *Summary) MayAsk() bool { return s.Approvals+s.Questions > 0 || s.Status == Running }

func lastTurn(c *state.Chat) *state.Turn {
	if n := len(c.Turns); n > 0 {
		return c.Turns[n-1]
	}
	return nil
}

// Filter picks sessions of a list.
type Filter struct {
	IncludeClosed   bool
	IncludeArchived bool
	IncludePrivate  bool
	// Dir picks sessions whose first working directory it is, "" all.
	Dir string
	// Backend picks by agent, "" all.
	Backend string
}

func (f Filter) takes(s *Summary) bool {
	return (f.IncludeClosed || !s.Info.Closed) && (f.IncludeArchived || !s.Info.Archived) &&
		(f.IncludePrivate || !s.Private) && (f.Backend == "" || f.Backend == s.Info.Backend) &&
		(f.Dir == "" || slices.Contains(s.Info.Dirs[:min(1, len(s.Info.Dirs))], f.Dir))
}

// List returns the sessions that the filter takes, newest first.
func (h *Host) List(f Filter) []Summary {
	h.mu.RLock()
	out := make([]Summary, 0, len(h.index))
	for _, s := range h.index {
		if f.takes(s) {
			out = append(out, *s)
		}
	}
	h.mu.RUnlock()
	slices.SortFunc(out, func(a, b Summary) int {
		return cmp.Or(b.Info.CreatedAt.Compare(a.Info.CreatedAt), b.Info.ID.Compare(a.Info.ID))
	})
	return out
}

// Summary returns one session's.
func (h *Host) Summary(s id.ID) (Summary, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if sum := h.index[s]; sum != nil {
		return *sum, true
	}
	return Summary{}, false
}
