package bae

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/ndjson"
)

// sender is one session.sendMessage.
type sender struct {
	*request
	f    *Front
	leg  *leg
	role string
	c    content
	out  *feed

	cur    *cursor
	events []json.RawMessage // of the turn, for the result
	bytes  int
}

// sendMessage checks a message; what it returns sends it.
func (f *Front) sendMessage(_ context.Context, rq *request) (func(context.Context, *feed), error) {
	if err := rq.room.open(); err != nil {
		return nil, err
	}
	var p struct {
		Message json.RawMessage `json:"message" jsonx:"required"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	var m struct {
		Role    *string         `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if !isObject(p.Message) {
		return nil, fail(codeParams, "params: message: want object, got %s", jsonx.Kind(p.Message))
	}
	if err := decode(p.Message, &m); err != nil {
		return nil, fail(codeParams, "params: message.%s", err)
	}
	if m.Content == nil {
		return nil, fail(codeParams, "params: message.content: missing")
	}
	s := &sender{request: rq, f: f, role: "user", c: readContent(m.Content), leg: &leg{key: rq.key.ID, id: id.New().String()}}
	if m.Role != nil {
		s.role = *m.Role
	}
	return s.run, nil
}

// answers reports whether the content is meant for a pause.
func (s *sender) answers() bool {
	return len(s.c.results) > 0 || s.c.empty() || !s.c.isText && !s.c.isArray
}

// run sends the message and streams its turn.
func (s *sender) run(ctx context.Context, out *feed) {
	s.out = out
	leave := func() { s.room.leave(s.leg) }
	out.done = append(out.done, leave)
	err := s.turn(ctx, false)
	// A message that got no turn has the gate no longer than one that did.
	timer := time.AfterFunc(releaseAfter, leave)
	out.done = append(out.done, func() { timer.Stop() })
	if s.cur != nil {
		s.cur.detach()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil && s.f.draining.Err() == nil:
		// The client has gone.
	default:
		ctx, cancel := within(ctx)
		defer cancel()
		_ = out.push(ctx, s.terminal(nil, s.f.rpcErrorOf(err)))
	}
}

// lagged is the last object of a stream that fell too far behind.
var lagged = ndjson.Line(mustJSON(reply{JSONRPC: "2.0", Error: &rpcError{codeState, errLagged.Error()}}))

// turn gets through the gate and does what the message is for.
func (s *sender) turn(ctx context.Context, again bool) error {
	how, p, err := s.room.enter(ctx, s.leg, s.answers(), again)
	if err != nil {
		return err
	}
	if err := s.room.open(); err != nil {
		return err
	}
	switch {
	case how == enterTakeover:
		return s.giveUp(ctx, p, true)
	case how == enterResume && s.room.running(p.turn) && !s.answers():
		return s.giveUp(ctx, p, false)
	case how == enterResume && s.answers():
		return s.resume(ctx, p)
	}
	return s.fresh(ctx)
}

// fresh begins a turn with nothing paused.
func (s *sender) fresh(ctx context.Context) error {
	switch {
	case len(s.c.results) > 0:
		return fail(codeState, "no tool call waits for a result")
	case !s.c.isText && !s.c.isArray:
		return fail(codeParams, "params: message.content: want string or array, got %s", jsonx.Kind(s.c.raw))
	case s.c.empty():
		return fail(codeParams, "params: message.content: empty")
	}
	return s.begin(ctx, s.c.raw, nil)
}

// begin starts a core turn and follows it.
func (s *sender) begin(ctx context.Context, shown json.RawMessage, results []toolResult) error {
	lists, err := s.f.registry.lists(ctx, s.ses, s.key.ID)
	if err != nil {
		return err
	}
	text, images := s.c.prompt()
	said := spoken{Leg: s.leg.id, Role: s.role, Content: shown, Results: results, Tools: lists.shown(), Routes: lists.routes()}
	if err := s.room.sync(ctx); err != nil {
		return err
	}
	s.cur = s.room.attach(false)
	stored, cancel := within(ctx)
	defer cancel()
	pr, err := s.room.session().Prompt(stored, host.Prompt{Chat: s.room.chat, Text: text, Attachments: images, By: actorOf(s.key),
		Rich: mustJSON(said), Busy: host.BusyRefuse, Tools: lists.offered()})
	if errors.Is(err, host.ErrBusy) { // another front was quicker
		s.cur.detach()
		s.cur = nil
		s.room.leave(s.leg)
		return s.turn(ctx, true)
	}
	if err != nil {
		return err
	}
	return s.follow(ctx, pr.Turn, true)
}

// actorOf is the client of a key, with its name for people.
func actorOf(k clientKey) event.Actor {
	return event.Actor{Front: frontName, Client: k.ID, Name: k.Name}
}

// resume answers the calls of a paused turn and follows it on.
func (s *sender) resume(ctx context.Context, p *pause) error {
	results, err := merge(p, s.role, s.c)
	if err != nil {
		return s.invalid(ctx, p, err)
	}
	lists, err := s.f.registry.lists(ctx, s.ses, s.key.ID)
	if err == nil {
		err = s.room.sync(ctx)
	}
	if err != nil {
		s.room.restore(p)
		return err
	}
	if !s.room.running(p.turn) {
		return s.late(ctx, p)
	}
	seen := s.room.answering(p)
	s.cur = s.room.attach(false)
	shown := recorded(p, results)
	rich := mustJSON(spoken{Leg: s.leg.id, Role: s.role, Content: mergedContent(shown, s.c.blocks), Results: shown,
		Tools: lists.shown(), Routes: lists.routes()})
	stored, cancel := within(ctx)
	defer cancel()
	resumed := false
	for n, i := range p.calls {
		res := resolutionOf(i, results[n], actorOf(s.key))
		if text, _ := s.c.prompt(); text != "" && n == len(p.calls)-1 && i.Kind == event.ClientCall {
			res.Output += "\n\n" + text // the agent takes no message in the middle of a call
		}
		if !resumed {
			res.Rich = rich
		}
		err := s.room.session().Resolve(stored, i.ID, res)
		if errors.Is(err, host.ErrInvalid) && i.Kind == event.Question {
			err = s.room.session().Resolve(stored, i.ID, event.Resolution{Outcome: event.Declined, By: actorOf(s.key), Rich: res.Rich})
		}
		switch {
		case err == nil:
			resumed = true
		case errors.Is(err, host.ErrResolved), errors.Is(err, host.ErrNotFound): // somebody else was first
		default:
			return err
		}
	}
	if !resumed { // the turn went on without this client: it gets what it missed
		ended, err := s.missed(ctx, p, seen)
		if ended || err != nil {
			return err
		}
	}
	return s.follow(ctx, p.turn, !p.foreign)
}

// late answers the owner of a pause whose turn ended without it.
func (s *sender) late(ctx context.Context, p *pause) error {
	ended, err := s.missed(ctx, p, s.room.session().State().Seq)
	if err == nil && !ended {
		err = fail(codeState, "the turn that asked for this result is over")
	}
	return err
}

// missed gives the client the turn's own events between its pause and the
// session event upto; ended says that the turn came to its end in them.
func (s *sender) missed(ctx context.Context, p *pause, upto uint64) (ended bool, err error) {
	var failed error
	err = s.room.replay(ctx, p.at, upto, func(e *entry) bool {
		if !e.turn && e.mark == nil {
			return true
		}
		ended, failed = s.take(ctx, e, p.turn)
		return !ended && failed == nil
	})
	return ended, errors.Join(err, failed)
}

// giveUp ends a paused turn for a new message: its owner's, or after the
// deadline anybody's.
func (s *sender) giveUp(ctx context.Context, p *pause, late bool) error {
	shown, results, err := abandon(p, s.role, s.c)
	if err != nil {
		return s.invalid(ctx, p, err)
	}
	stored, cancel := within(ctx)
	defer cancel()
	if late {
		lost := noted{typeError, p.owner, mustJSON(sessionError{Reason: "driver_turn_abandoned", Owner: p.owner})}
		if err := s.room.write(stored, s.key.ID, lost); err != nil {
			return err
		}
	}
	if err := s.interrupt(stored, p.turn); err != nil {
		return err
	}
	if err := s.room.idle(stored, p.turn); err != nil {
		return err
	}
	return s.begin(ctx, shown, results)
}

func (s *sender) interrupt(ctx context.Context, turn id.ID) error {
	_, err := s.room.session().Interrupt(ctx, host.Interrupt{Chat: s.room.chat, Turn: turn, By: actorOf(s.key), KeepQueue: true})
	return err
}

// invalid ends the session: its paused turn got an answer that does not fit. A
// turn that another front began is not this client's to end.
func (s *sender) invalid(ctx context.Context, p *pause, cause error) error {
	bad := fail(codeState, "the tool results do not fit the paused turn: %s", cause)
	if p.foreign {
		s.room.restore(p)
		return bad
	}
	stored, cancel := within(ctx)
	defer cancel()
	u := noteMeta(actorOf(s.key), note{Chat: s.room.chat, Events: []noted{
		{typeError, s.key.ID, mustJSON(sessionError{Reason: "tool_result_merge_invalid", Detail: cause.Error()})}}})
	u.Meta[metaError] = mustJSON("tool_result_merge_invalid")
	err := s.room.session().Update(stored, u)
	return errors.Join(err, s.interrupt(stored, p.turn), bad)
}

// follow streams a turn to the end of its leg.
func (s *sender) follow(ctx context.Context, turn id.ID, own bool) error {
	for {
		ended, err := s.more(ctx, turn)
		if ended {
			return err
		}
		if err != nil {
			if own && s.f.draining.Err() == nil {
				// A client that goes away cancels its turn.
				stored, cancel := within(ctx)
				defer cancel()
				err = errors.Join(err, s.interrupt(stored, turn))
			}
			return err
		}
	}
}

// more passes on what came since the last call. A sender that reads slowly is
// fed from the log: it must not lose its result.
func (s *sender) more(ctx context.Context, turn id.ID) (ended bool, err error) {
	entries, err := s.cur.wait(ctx)
	if errors.Is(err, errLagged) {
		r, from := s.room, s.cur.at
		s.cur.detach()
		s.cur = r.attach(false)
		var failed error
		err = r.replay(ctx, from, s.cur.at.seq, func(e *entry) bool {
			ended, failed = s.take(ctx, e, turn)
			return !ended && failed == nil
		})
		return ended, errors.Join(err, failed)
	}
	for i := range entries {
		if ended, err := s.take(ctx, &entries[i], turn); ended || err != nil {
			return ended, err
		}
	}
	return false, err
}

// take passes one entry on; ended says that it was the leg's last and the
// result is written.
func (s *sender) take(ctx context.Context, e *entry, turn id.ID) (ended bool, err error) {
	if e.kind != "" {
		if e.leg != s.leg.id {
			if err := s.out.pushEntry(ctx, e); err != nil {
				return false, err
			}
		}
		if e.turn {
			s.collect(e.raw)
		}
	}
	if e.mark == nil || e.mark.turn != turn {
		return false, nil
	}
	if e.mark.message == nil {
		return true, fail(codeState, "the turn was ended")
	}
	type result struct {
		Message json.RawMessage   `json:"message"`
		Events  []json.RawMessage `json:"events"`
	}
	if s.events == nil {
		s.events = []json.RawMessage{}
	}
	return true, s.out.push(ctx, s.terminal(result{e.mark.message, s.events}, nil))
}

// collect keeps an event for the result, within bounds.
func (s *sender) collect(raw json.RawMessage) {
	s.events = append(s.events, raw)
	s.bytes += len(raw)
	for s.bytes > resultBytes && len(s.events) > 1 {
		s.bytes -= len(s.events[0])
		s.events = s.events[1:]
	}
}
