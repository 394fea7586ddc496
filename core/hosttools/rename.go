package hosttools

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

func renameChat(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Title string `json:"title" need:"yes"`
		Chat  string `json:"chat"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	title := strings.TrimSpace(in.Title)
	switch {
	case title == "":
		return nil, sayf("title is empty")
	case utf8.RuneCountInString(title) > maxTitle:
		return nil, sayf("title has more than %d characters", maxTitle)
	}
	chat := c.from.Chat
	if in.Chat != "" {
		sum, named, err := c.find(in.Chat)
		if err != nil {
			return nil, err
		}
		if sum.Info.ID != c.from.Session {
			return nil, sayf("chat: that is another session's, which is not yours to name")
		}
		chat = named
	}
	s, by, err := c.mine()
	if err != nil {
		return nil, err
	}
	st := s.State()
	if chat == st.Default { // it goes by the name of its session
		err = s.Update(c.ctx, &event.SessionUpdated{By: by, Title: &title})
	} else {
		err = s.UpdateChat(c.ctx, chat, &event.ChatUpdated{By: by, Title: &title})
	}
	sum := host.Summary{Default: st.Default}
	return map[string]any{"title": title, "openLink": c.link(&st.Info, chatOf(&sum, chat))}, err
}
