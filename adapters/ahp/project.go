package ahp

import (
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// texts is the hot path: deltas of one part's text, one frame each for each
// spelling.
func (l *live) texts(events []*event.Event) {
	for _, e := range events {
		if err := l.st.Apply(e); err != nil {
			l.front.log.Error("An event does not follow", "session", l.id.String(), "err", err)
			continue
		}
		l.pieces = append(l.pieces, e.Body.(*event.PartDelta).Text)
	}
	e, part := events[0], events[0].Body.(*event.PartDelta).Part
	for _, s := range l.open {
		if s.chat != e.Chat {
			continue
		}
		head := s.heads[part]
		if head == nil {
			if head = l.deltaHead(s, e, part); head == nil {
				continue
			}
			s.heads[part] = head
		}
		l.front.journal.texts(s.ch, head, l.pieces)
	}
	clear(l.pieces)
	l.pieces = l.pieces[:0]
}

// deltaHead is everything of a delta's frame before its text.
func (l *live) deltaHead(s *stream, e *event.Event, part id.ID) []byte {
	_, t, p := l.part(e, part)
	if p == nil {
		return nil
	}
	kind := "chat/delta"
	if p.Kind == event.PartReasoning {
		kind = "chat/reasoning"
	}
	b := append(s.ch.head(160), `{"type":"`+kind+`","turnId":`...)
	b = jsonx.AppendString(b, turnID(t))
	b = append(b, `,"partId":"`+part.String()+`","content":`...)
	return b[:len(b):len(b)]
}

// part finds a part of the running turn that an event is about.
func (l *live) part(e *event.Event, part id.ID) (*state.Chat, *state.Turn, *event.Part) {
	c := l.st.Chat(e.Chat)
	if c == nil || c.Active == nil || c.Active.ID != e.Turn {
		return c, nil, nil
	}
	return c, c.Active, c.Active.Part(part)
}

// before notes what the fold will overwrite.
func (l *live) before(e *event.Event) {
	var part id.ID
	switch b := e.Body.(type) {
	case *event.ToolReady:
		part = b.Part
	case *event.ToolRunning:
		part = b.Part
	case *event.ToolEnded:
		part = b.Part
	case *event.ToolLinked:
		part = b.Part
	case *event.ToolProgress:
		part = b.Part
	case *event.InteractionOpened:
		part = b.Interaction.Part
	case *event.InteractionResolved:
		part = b.Part
	case *event.MessageRemoved:
		if c := l.st.Chat(e.Chat); c != nil {
			for i := range c.Queue {
				if c.Queue[i].ID == b.ID {
					l.leaving[b.ID] = messageID(&c.Queue[i])
				}
			}
		}
	case *event.ChatRemoved:
		if c := l.st.Chat(e.Chat); c != nil {
			l.removedAliases = c.Aliases
		}
	case *event.WorkChanged:
		l.work = nil
		if c := l.st.Chat(e.Chat); c != nil {
			l.work = c.Work
		}
	case *event.ChatUpdated:
		if c := l.st.Chat(e.Chat); c != nil {
			l.chatDirs = c.Dirs
		}
	case *event.SessionUpdated:
		l.config = configValues(&l.st.Info)
		l.dirs = l.st.Info.Dirs
	}
	if part.IsNil() {
		return
	}
	if _, _, p := l.part(e, part); p != nil && p.Tool != nil {
		l.view(p)
	}
}

// after says what an event means, once it is folded.
func (l *live) after(e *event.Event) {
	switch b := e.Body.(type) {
	case *event.TurnStarted:
		l.turnStarted(e, b)
	case *event.TurnResumed:
		l.turnResumed(e, b)
	case *event.TurnEnded:
		l.turnEnded(e, b)
	case *event.PartStarted:
		l.partStarted(e, b)
	case *event.PartEnded:
		l.partEnded(b)
	case *event.ToolRunning:
		l.toolRunning(e, b)
	case *event.ToolLinked:
		l.linked(e, b)
	case *event.ToolProgress:
		if _, t, p := l.part(e, b.Part); p != nil && p.Tool != nil && metaOf(p.Tool)["toolKind"] == "subagent" {
			l.view(p).progress = true
			l.show(e.Chat, t, p, e.At)
		}
	case *event.ToolEnded:
		l.toolEnded(e, b)
		l.front.changesets.touched(l.id)
		if l.followed != "" {
			l.front.facts.want(l.followed, false)
		}
	case *event.UsageReported, *event.ContextReported:
		if c := l.st.Chat(e.Chat); c != nil && c.Active != nil && c.Active.ID == e.Turn {
			l.say(e.Chat, nil, func(*renderer) any {
				return struct {
					turnAction
					Usage *usageShape `json:"usage"`
				}{turnAction{"chat/usage", turnID(c.Active)}, usage(c.Active.Usage, c.Active.Context)}
			})
		}
	case *event.InteractionOpened:
		l.opened(e, &b.Interaction)
	case *event.InteractionResolved:
		l.resolved(e, b)
	case *event.WorkChanged:
		l.workChanged(e, l.work)
	case *event.MessageQueued:
		l.queued(e, b)
	case *event.MessageUpdated:
		l.updated(e, b)
	case *event.MessageRemoved:
		l.removed(e, b)
	case *event.QueueReordered:
		l.reordered(e, b)
	default:
		l.afterSession(e)
	}
}

func (l *live) turnStarted(e *event.Event, b *event.TurnStarted) {
	queued := ""
	m := &b.Message
	if b.FromQueue {
		queued = messageID(m)
	} else if o := l.take("queue:" + m.ID.String()); o != nil {
		// Sent to wait, but nothing ran: it is taken at once.
		queued = messageID(m)
		l.say(e.Chat, o, func(*renderer) any { return pendingAction{"chat/pendingMessageSet", kindQueued, queued, message(m)} })
		l.say(e.Chat, nil, func(*renderer) any {
			return pendingAction{Type: "chat/pendingMessageRemoved", Kind: kindQueued, ID: queued}
		})
	}
	l.chatView(e.Chat).read = false
	l.say(e.Chat, l.take("turn:"+e.Turn.String()), func(*renderer) any {
		return turnStart{"chat/turnStarted", turnName(e.Turn, m), startedAt(m, e.At), message(m), queued, personMeta(senderKey, m.By.User)}
	})
}

func (l *live) turnResumed(e *event.Event, b *event.TurnResumed) {
	l.chatView(e.Chat).read = false
	l.say(e.Chat, l.take("resume:"+e.Turn.String()+b.By.Client), func(*renderer) any {
		return turnAction{"chat/turnResume", turnName(e.Turn, &b.Message)}
	})
}

func (l *live) turnEnded(e *event.Event, b *event.TurnEnded) {
	c := l.st.Chat(e.Chat)
	if c == nil || len(c.Turns) == 0 {
		return
	}
	t := c.Turns[len(c.Turns)-1]
	if t.ID != e.Turn {
		return
	}
	end := turnEnd{Type: "chat/turnComplete", TurnID: turnID(t), Duration: milliseconds(t.Duration)}
	switch b.Status {
	case event.TurnCancelled:
		end.Type = "chat/turnCancelled"
	case event.TurnFailed:
		part := failure(b.Error, b.Resumable)
		end.Type, end.Part = "chat/error", &part
	}
	l.say(e.Chat, l.take("end:"+e.Turn.String()), func(*renderer) any { return end })
	l.lookForRepository()
	for _, p := range t.Parts {
		delete(l.calls, p.ID)
		l.void("confirm:"+p.ID.String(), "that turn is over")
		l.void("call:"+p.ID.String(), "that turn is over")
		for _, s := range l.open {
			delete(s.heads, p.ID)
		}
	}
	for _, a := range t.Asked {
		delete(l.asks, a.Interaction.ID)
	}
	if v := l.chatView(e.Chat); v.read {
		v.read = false
		l.say(e.Chat, nil, func(*renderer) any { return map[string]any{"type": "chat/isReadChanged", "isRead": false} })
	}
}

// lookForRepository tells another catalogue of changesets when the session's
// directory became a working tree, or is none any more.
func (l *live) lookForRepository() {
	now := inRepository(l.st.Info.Dirs)
	if now == l.repository {
		return
	}
	l.repository = now
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/changesetsChanged", "changesets": catalogue(r.speller.session, now)}
	})
}

func (l *live) opened(e *event.Event, i *event.Interaction) {
	switch i.Kind {
	case event.Question:
		c := l.st.Chat(i.Chat)
		if c == nil || c.Active == nil {
			return
		}
		l.chatView(i.Chat).read = false
		l.say(i.Chat, nil, func(*renderer) any { return map[string]any{"type": "chat/inputRequested", "request": request(i)} })
	case event.Approval:
		if _, t, p := l.part(e, i.Part); p != nil && p.Tool != nil {
			l.ready(e, t, p, l.view(p), "")
		}
	case event.SignIn:
		if _, t, p := l.part(e, i.Part); p != nil && p.Tool != nil {
			l.view(p).phase = phaseSignIn
			l.say(e.Chat, nil, func(r *renderer) any {
				return callAuth{turnAction{"chat/toolCallAuthRequired", turnID(t)}, p.Tool.Call, r.signIn(p)}
			})
		}
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/inputNeededSet", "request": r.needs(i)}
	})
}

func (l *live) resolved(e *event.Event, b *event.InteractionResolved) {
	if _, t, p := l.part(e, b.Part); b.Of == event.SignIn && p != nil && p.Tool != nil {
		l.view(p).phase = phaseRunning
		l.say(e.Chat, nil, func(*renderer) any {
			return callAuth{turnAction: turnAction{"chat/toolCallAuthResolved", turnID(t)}, ToolCallID: p.Tool.Call}
		})
	}
	if b.Of == event.Question {
		o := l.take("input:" + b.ID.String())
		l.clearTyped(e, b.ID)
		if word := response(&b.Resolution); word != "" {
			a := inputCompleted{Type: "chat/inputCompleted", RequestID: b.ID.String(), Response: word}
			if asked := l.asked(e, b.ID); asked != nil {
				if given := answers(&asked.Interaction, &b.Resolution); given != nil {
					a.Answers = given
				}
			}
			l.say(e.Chat, o, func(*renderer) any { return a })
		}
		delete(l.asks, b.ID)
	}
	l.say(id.Nil, nil, func(*renderer) any {
		return map[string]any{"type": "session/inputNeededRemoved", "id": b.ID.String()}
	})
}

// clearTyped takes back the answers that were being typed: what counts is what
// was given, and a finished turn keeps nothing else.
func (l *live) clearTyped(e *event.Event, ask id.ID) {
	v := l.asks[ask]
	if v == nil {
		return
	}
	for question := range v.answers {
		l.say(e.Chat, nil, func(*renderer) any {
			return map[string]any{"type": "chat/inputAnswerChanged", "requestId": ask.String(), "questionId": question}
		})
	}
}

func (l *live) asked(e *event.Event, ask id.ID) *state.Asked {
	c := l.st.Chat(e.Chat)
	if c == nil || c.Active == nil {
		return nil
	}
	for _, a := range c.Active.Asked {
		if a.Interaction.ID == ask {
			return a
		}
	}
	return nil
}
