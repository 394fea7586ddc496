package host

import (
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// goesOn takes what an agent goes on with. A subagent's work is shown once its
// chat is known; what is shown keeps its place and its beginning.
func (s *Session) goesOn(r *run, list []agent.Work) {
	c := s.work.Chat(r.chat)
	if c == nil {
		return
	}
	var next, fresh []event.Work
	for _, w := range c.Work {
		if i := slices.IndexFunc(list, func(x agent.Work) bool { return x.ID == w.ID }); i >= 0 {
			if seen, ok := s.workOf(r, &list[i], w.Chat); ok {
				seen.StartedAt = w.StartedAt
				next = append(next, seen)
			}
		}
	}
	for i := range list {
		known := func(w event.Work) bool { return w.ID == list[i].ID }
		if list[i].ID == "" || slices.ContainsFunc(c.Work, known) || slices.ContainsFunc(fresh, known) || len(next)+len(fresh) == MaxWork {
			continue
		}
		if w, ok := s.workOf(r, &list[i], id.Nil); ok {
			w.StartedAt = s.at
			fresh = append(fresh, w)
		}
	}
	next = append(next, fresh...)
	if !slices.Equal(next, c.Work) {
		s.emit(r.chat, id.Nil, &event.WorkChanged{Work: next})
	}
}

func (s *Session) workOf(r *run, w *agent.Work, chat id.ID) (event.Work, bool) {
	out := event.Work{ID: clipTitle(w.ID), Kind: event.WorkShell, Label: clipTitle(w.Label), Command: validPrefix(w.Command, min(len(w.Command), maxLastPrompt))}
	if w.Child == "" {
		return out, true
	}
	out.Kind, out.Command, out.Chat = event.WorkSubagent, "", chat
	if child := r.children[w.Child]; child != nil {
		out.Chat = child.chat
	}
	return out, !out.Chat.IsNil()
}

// nothingLeft: the agent is gone, and with it what it went on with.
func (s *Session) nothingLeft(chat id.ID) {
	if c := s.work.Chat(chat); c != nil && len(c.Work) > 0 && !s.stopping {
		s.emit(chat, id.Nil, &event.WorkChanged{})
	}
}
