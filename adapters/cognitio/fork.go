package cognitio

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// forkSession makes a session of its own with a session's history, up to an
// answer if one is named.
func forkSession(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	var body struct {
		MessageID string `json:"messageID"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	fork := host.Fork{Chat: p.chat, By: c.by()}
	if body.MessageID != "" {
		if fork.UpTo, err = c.forkPoint(p, body.MessageID); err != nil {
			return nil, err
		}
	}
	at := p.at()
	meta := map[string]json.RawMessage{}
	for _, k := range []string{metaPermission, metaRuntime} {
		if v := at.info.Meta[k]; v != nil {
			meta[k] = v
		}
	}
	from := c.f.session(at)
	if meta[metaForked], err = jsonx.Encode(from.ID); err != nil {
		return nil, err
	}
	fork.Title, fork.Meta = forkTitle(from.Title), meta
	s, err := p.Fork(c.ctx(), fork)
	if err != nil {
		return nil, err
	}
	st := s.State()
	made := chatOf(st, st.DefaultChat())
	c.f.created(made, c.f.originOf(&st.Info))
	return c.f.session(made), nil
}

// forkPoint is the turn that ends with a message. Agents begin at the end of a
// turn: other messages are refused.
func (c *call) forkPoint(p *place, message string) (turn id.ID, err error) {
	v := c.f.viewOf(p.at())
	found, last := false, false
	err = p.eachTurn(c.ctx(), func(t turnAt) bool {
		all := v.messages(t.Turn)
		n := slices.IndexFunc(all, func(m messageWithParts) bool { return m.id == message })
		found, last, turn = n >= 0, n > 0 && n == len(all)-1, t.ID
		return !found
	})
	switch {
	case err != nil:
		return turn, err
	case !found:
		return turn, notFound("Message not found: %.100s", message)
	case !last:
		return turn, notServed("messageID: agents fork at the end of a turn, and this message is not the last one of its turn")
	}
	return turn, nil
}

var forkNumber = regexp.MustCompile(`^(.*) \(fork #(\d{1,6})\)$`)

// forkTitle counts the forks of a title.
func forkTitle(title string) string {
	n := 1
	if m := forkNumber.FindStringSubmatch(title); m != nil {
		title = m[1]
		if before, err := strconv.Atoi(m[2]); err == nil {
			n = before + 1
		}
	}
	return fmt.Sprintf("%s (fork #%d)", title, n)
}
