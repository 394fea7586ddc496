package cognitio

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// turnAt is a turn on the way from the newest to the oldest.
type turnAt struct{ *state.Turn }

// eachTurn visits the turns of the place's chat, newest first, until visit
// says to stop.
func (p *place) eachTurn(ctx context.Context, visit func(turnAt) bool) error {
	chat := p.State().Chat(p.chat)
	if chat == nil {
		return nil
	}
	if chat.Active != nil && !visit(turnAt{chat.Active}) {
		return nil
	}
	for before := chat.Count; before > 0; {
		page, err := p.Turns(ctx, p.chat, before, turnPage)
		if err != nil {
			return fmt.Errorf("read turns: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, t := range slices.Backward(page) {
			if !visit(turnAt{t}) {
				return nil
			}
		}
		before -= len(page)
	}
	return nil
}

// cursor is where a page of messages ended: the oldest one it had.
type cursor struct {
	ID   string `json:"id"`
	Time int64  `json:"time"`
}

func (k cursor) String() string {
	b, err := jsonx.Encode(k)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (k cursor, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil || k.ID == "" {
		return k, badQuery("before", "before: not a cursor of this server")
	}
	return k, nil
}

// history gathers the newest limit messages before a cursor, oldest first,
// and says whether there are more. Messages are ordered by their time, and in
// one millisecond by their turns: ids say less, as clients choose some and the
// time in the others wraps.
func (f *server) history(ctx context.Context, p *place, limit int, before *cursor) ([]messageWithParts, bool, error) {
	st := p.State()
	chat := st.Chat(p.chat)
	v := f.viewOf(chatOf(st, chat))
	var all []messageWithParts // newest turn first, each turn backwards
	keep := func(ms []messageWithParts) {
		for _, m := range slices.Backward(ms) {
			if before == nil || m.created <= before.Time {
				all = append(all, m)
			}
		}
	}
	var waiting []messageWithParts
	for _, q := range [][]event.Message{chat.Steering, chat.Queue} {
		for i := range q {
			waiting = append(waiting, v.userWithParts(&q[i], q[i].System))
		}
	}
	keep(waiting)
	more := false
	err := p.eachTurn(ctx, func(t turnAt) bool {
		// What is older than this turn's end is complete only once the turn
		// was read: messages may have waited.
		from, sure := turnEnd(t.Turn), 0
		for _, m := range all {
			if m.created > from && (before == nil || m.created < before.Time) {
				sure++
			}
		}
		if sure > limit {
			more = true
			return false
		}
		keep(v.messages(t.Turn))
		return true
	})
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b messageWithParts) int { return cmp.Compare(a.created, b.created) })
	if before != nil {
		all = all[:before.cut(all)]
	}
	if len(all) > limit {
		more = true
		all = all[len(all)-limit:]
	}
	return all, more, err
}

// cut is how many messages are before the cursor's.
func (k cursor) cut(all []messageWithParts) int {
	if at := slices.IndexFunc(all, func(m messageWithParts) bool { return m.id == k.ID }); at >= 0 {
		return at
	}
	at, _ := slices.BinarySearchFunc(all, k.Time, func(m messageWithParts, t int64) int { return cmp.Compare(m.created, t) })
	return at
}

func listMessages(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", maxMessages)
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > maxMessages {
		limit = maxMessages
	}
	q := c.r.URL.Query()
	switch view := q.Get("view"); view {
	case "", "raw", "active":
	default:
		return nil, badQuery("view", `view: want "raw" or "active", got %.40q`, view)
	}
	var before *cursor
	if s := q.Get("before"); s != "" {
		k, err := parseCursor(s)
		if err != nil {
			return nil, err
		}
		before = &k
	}
	page, more, err := c.f.history(c.ctx(), p, limit, before)
	if err != nil {
		return nil, err
	}
	if more && len(page) > 0 {
		next := cursor{page[0].id, page[0].created}.String()
		q.Set("before", next)
		q.Del("auth_token")
		link := *c.r.URL
		link.RawQuery = q.Encode()
		link.Scheme, link.Host = "http", c.r.Host
		c.w.Header().Set("X-Next-Cursor", next)
		c.w.Header().Set("Link", "<"+link.String()+`>; rel="next"`)
	}
	if page == nil {
		page = []messageWithParts{}
	}
	return page, nil
}

func getMessage(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	message, err := c.messageParam()
	if err != nil {
		return nil, err
	}
	m, err := c.f.message(c.ctx(), p, message)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// message finds one message of a chat.
func (f *server) message(ctx context.Context, p *place, message string) (*messageWithParts, error) {
	st := p.State()
	chat := st.Chat(p.chat)
	v := f.viewOf(chatOf(st, chat))
	for i := range chat.Queue {
		if userMessageID(&chat.Queue[i]) == message {
			m := v.userWithParts(&chat.Queue[i], chat.Queue[i].System)
			return &m, nil
		}
	}
	var found *messageWithParts
	err := p.eachTurn(ctx, func(t turnAt) bool {
		for _, m := range v.messages(t.Turn) {
			if m.id == message {
				found = &m
			}
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = notFound("Message not found: %.100s", message)
	}
	return found, err
}
