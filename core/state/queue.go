package state

import (
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

func replaceMessage(q []event.Message, m event.Message) []event.Message {
	i := slices.IndexFunc(q, func(o event.Message) bool { return o.ID == m.ID })
	if i < 0 {
		return q
	}
	q = slices.Clone(q)
	q[i] = m
	return q
}

func dropMessage(q []event.Message, m id.ID) []event.Message {
	i := slices.IndexFunc(q, func(o event.Message) bool { return o.ID == m })
	if i < 0 {
		return q
	}
	if len(q) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(q), i, i+1)
}

// reorder puts the listed messages first, in that order, and the others after
// them in their old one.
func reorder(q []event.Message, order []id.ID) []event.Message {
	out := make([]event.Message, 0, len(q))
	taken := make(map[id.ID]bool, len(order))
	for _, o := range order {
		if i := slices.IndexFunc(q, func(m event.Message) bool { return m.ID == o }); i >= 0 && !taken[o] {
			taken[o] = true
			out = append(out, q[i])
		}
	}
	for _, m := range q {
		if !taken[m.ID] {
			out = append(out, m)
		}
	}
	return out
}
