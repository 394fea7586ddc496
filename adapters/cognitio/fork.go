package cognitio

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/host"
)

// forkSession makes a session of its own with a session's history. Agents fork
// whole conversations, so that the only message which may be named is the
// newest answer.
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
	if body.MessageID != "" {
		if err := c.checkForkPoint(p, body.MessageID); err != nil {
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
	if meta[metaForked], err = encode(from.ID); err != nil {
		return nil, err
	}
	s, err := p.Fork(c.ctx(), host.Fork{Chat: p.chat, By: c.by(), Title: forkTitle(from.Title), Meta: meta})
	if err != nil {
		return nil, err
	}
	st := s.State()
	made := chatOf(st, st.DefaultChat())
	c.f.created(made, c.f.originOf(&st.Info))
	return c.f.session(made), nil
}

// checkForkPoint refuses a message that is not the end of the conversation.
func (c *call) checkForkPoint(p *place, message string) error {
	v := c.f.viewOf(p.at())
	found, newest, last := false, true, false
	err := p.eachTurn(c.ctx(), func(t turnAt) bool {
		all := v.messages(t.Turn)
		n := slices.IndexFunc(all, func(m messageWithParts) bool { return m.id == message })
		found, last = n >= 0, newest && n > 0 && n == len(all)-1
		newest = false
		return !found
	})
	switch {
	case err != nil:
		return err
	case !found:
		return notFound("Message not found: %.100s", message)
	case !last:
		return notServed("messageID: agents fork whole conversations, not at an earlier message; leave it out")
	}
	return nil
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
