package ahp

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// splitScope takes a scope apart: what it is, and the turns that it names.
func splitScope(scope string) (kind string, turns []string, ok bool) {
	p := strings.Split(scope, "/")
	for _, escaped := range p[1:] {
		turn, err := url.PathUnescape(escaped)
		if err != nil || turn == "" {
			return "", nil, false
		}
		turns = append(turns, turn)
	}
	named, ok := map[string]int{scopeSession: 0, scopeUncommitted: 0, scopeTurn: 1, scopeCompare: 2}[p[0]]
	return p[0], turns, ok && len(turns) == named
}

// turnAt is a turn and the chat that it is in.
type turnAt struct {
	chat *state.Chat
	turn *state.Turn
}

// allTurns are the turns of a session's chats, the newest of each, in the order
// in which they began.
func (s *changesets) allTurns(ctx context.Context, session id.ID) ([]turnAt, error) {
	sess, err := s.front.host.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	var all []turnAt
	for _, chat := range sess.State().Chats {
		turns, err := sess.Turns(ctx, chat.ID, chat.Count, maxChangesetTurns)
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			all = append(all, turnAt{chat, t})
		}
		if chat.Active != nil {
			all = append(all, turnAt{chat, chat.Active})
		}
	}
	slices.SortStableFunc(all, func(a, b turnAt) int { return cmp.Compare(a.turn.StartedAt.UnixNano(), b.turn.StartedAt.UnixNano()) })
	return all, nil
}

// stretch finds the turns that a changeset is of, oldest first. A turn has with
// it those of the workers that it spawned.
func (s *changesets) stretch(ctx context.Context, c *scoped) ([]turnAt, error) {
	all, err := s.allTurns(ctx, c.session)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(c.turns))
	for i, name := range c.turns {
		at[i] = slices.IndexFunc(all, func(t turnAt) bool { return turnID(t.turn) == name || t.turn.ID.String() == name })
		if at[i] < 0 {
			return nil, notFound(c.uri)
		}
	}
	switch c.scope {
	case scopeTurn:
		return withWorkers(all[at[0]], all), nil
	case scopeCompare:
		if at[1] < at[0] {
			return nil, invalid("channel: the first turn of a comparison is the older one")
		}
		return all[at[0]+1 : at[1]+1], nil
	}
	return all, nil
}

// withWorkers gives a turn, and the turns of the chats that it spawned, and of
// those that these spawned.
func withWorkers(of turnAt, all []turnAt) []turnAt {
	in := map[id.ID]bool{of.turn.ID: true}
	var out []turnAt
	for _, t := range all { // a worker's turns begin after the one that spawned it
		o := t.chat.Origin
		if t.turn.ID == of.turn.ID || o.Kind == event.OriginSubagent && in[o.Turn] {
			in[t.turn.ID] = true
			out = append(out, t)
		}
	}
	return out
}
