package ahp

import (
	"slices"

	"github.com/polyhost/polyhost/core/event"
)

// backgroundWork is something that an agent goes on with.
type backgroundWork struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	Label     string `json:"label"`
	StartedAt string `json:"startedAt"`
	Command   string `json:"command,omitempty"`
	Chat      string `json:"chat,omitempty"`
}

func workID(w *event.Work) string { return w.Kind + ":" + w.ID }

func (r *renderer) work(list []event.Work) (out []backgroundWork) {
	for i := range list {
		w := &list[i]
		b := backgroundWork{Kind: w.Kind, ID: workID(w), Label: w.Label, StartedAt: stamp(w.StartedAt), Command: w.Command}
		if w.Kind == event.WorkSubagent {
			b.Chat = r.chatURI(w.Chat)
		}
		out = append(out, b)
	}
	return out
}

// workChanged tells what came and went of it, since was.
func (l *live) workChanged(e *event.Event, was []event.Work) {
	c := l.st.Chat(e.Chat)
	if c == nil {
		return
	}
	for i := range was {
		if !slices.ContainsFunc(c.Work, func(w event.Work) bool { return workID(&w) == workID(&was[i]) }) {
			l.say(e.Chat, nil, func(*renderer) any {
				return map[string]any{"type": "chat/backgroundWorkRemoved", "id": workID(&was[i])}
			})
		}
	}
	for i := range c.Work {
		if !slices.Contains(was, c.Work[i]) {
			l.say(e.Chat, nil, func(r *renderer) any {
				return map[string]any{"type": "chat/backgroundWorkSet", "work": r.work(c.Work[i : i+1])[0]}
			})
		}
	}
}
