package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/id"
)

// AgentFile is the file in which the agent itself keeps a chat's conversation;
// the default chat's when chat is nil. It is "" when the agent keeps none, or
// not yet.
func (h *Host) AgentFile(ctx context.Context, sid, chat id.ID) (string, error) {
	h.mu.RLock()
	past, unread := h.past.unread[sid]
	h.mu.RUnlock()
	q, name := agent.HistoryQuery{ID: past.ID, Dir: past.Dir, Limit: 1}, past.backend
	if !unread {
		s, err := h.Session(ctx, sid)
		if err != nil {
			return "", err
		}
		st := s.State()
		if chat.IsNil() {
			chat = st.Default
		}
		c := st.Chat(chat)
		if c == nil {
			return "", fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		q.ID, name = c.Conversation, st.Info.Backend
		if len(st.Info.Dirs) > 0 {
			q.Dir = st.Info.Dirs[0]
		}
	}
	keeper, ok := h.backend(name).(agent.Cataloger)
	if !ok || q.ID == "" {
		return "", nil
	}
	page, err := keeper.History(ctx, q)
	if err != nil {
		if !errors.Is(err, agent.ErrUnsupported) {
			h.log.Debug("An agent did not say where it keeps a conversation", "session", sid.String(), "backend", name, "err", err)
		}
		return "", nil
	}
	if info, err := os.Stat(page.File); !filepath.IsAbs(page.File) || err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	return page.File, nil
}
