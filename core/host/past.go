package host

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// pastList is what is known of the agents' own past conversations. Those that
// no session has are in the host's index like sessions; the history of one is
// read when it is first opened. Host.mu guards it.
type pastList struct {
	// unread are the listed ones, by the id of the session they will be.
	unread map[id.ID]pastOne
	// grown are sessions that were read, whose conversation went on in the
	// agent itself.
	grown map[id.ID]pastOne
	// owner is the session of each conversation, read or not.
	owner map[string]id.ID
	// buried were deleted in the gateway, or replaced by their continuation,
	// and are not listed again.
	buried map[string]bool // by buriedKey
}

type pastOne struct {
	backend string
	agent.PastConversation
}

func newPastList() pastList {
	return pastList{unread: map[id.ID]pastOne{}, grown: map[id.ID]pastOne{}, owner: map[string]id.ID{}, buried: map[string]bool{}}
}

// conversationKey names a conversation of an agent.
func conversationKey(backend, conversation string) string { return backend + "\x00" + conversation }

// watchPast lists the past conversations once the agents are known, and again
// from time to time.
func (h *Host) watchPast() {
	if h.opt.Past < 0 || h.AgentsReady(h.ctx) != nil {
		return
	}
	t := time.NewTicker(PastEvery)
	defer t.Stop()
	for {
		h.RefreshPast(h.ctx)
		select {
		case <-t.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// RefreshPast asks the agents for their past conversations now.
func (h *Host) RefreshPast(ctx context.Context) {
	for _, b := range h.opt.Backends {
		c, ok := b.Backend.(agent.Cataloger)
		if !ok || !h.can(b.Name).Catalogue || h.opt.Past < 0 {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, PastWithin)
		list, err := conversations(asked, c, h.opt.Past)
		cancel()
		switch {
		case err == nil:
			h.listPast(b.Name, list)
		case ctx.Err() != nil:
			return
		case !errors.Is(err, agent.ErrUnsupported):
			h.log.Warn("An agent did not list its past conversations", "backend", b.Name, "err", err)
		}
	}
}

// conversations reads the newest of an agent's list.
func conversations(ctx context.Context, c agent.Cataloger, most int) (list []agent.PastConversation, err error) {
	q := agent.ConversationQuery{}
	for oldest := time.Now().Add(-PastAge); len(list) < most; {
		q.Limit = min(pastPage, most-len(list))
		page, err := c.Conversations(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, p := range page.Conversations[:min(len(page.Conversations), q.Limit)] {
			if p.UpdatedAt.Before(oldest) {
				return list, nil
			}
			list = append(list, p)
		}
		if page.Next == "" || page.Next == q.After || len(page.Conversations) == 0 {
			break
		}
		q.After = page.Next
	}
	return list, nil
}

// listPast takes an agent's list for the one in the index, and tells the
// watchers what is different.
func (h *Host) listPast(backend string, list []agent.PastConversation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return
	}
	there := map[id.ID]bool{}
	for _, p := range list {
		if p.ID == "" || len(p.ID) > MaxName || !filepath.IsAbs(p.Dir) || h.past.buried[buriedKey(conversationKey(backend, p.ID))] {
			continue
		}
		sum := h.pastSummary(backend, p)
		sid := sum.Info.ID
		owner, owned := h.past.owner[conversationKey(backend, p.ID)]
		if owned && owner != sid { // a session of the gateway has it, or its moment of creation has changed
			if _, unread := h.past.unread[owner]; unread {
				there[owner] = true
			}
			continue
		}
		old := h.index[sid]
		if _, unread := h.past.unread[sid]; old != nil && !unread {
			if old.Info.FromAgent && sum.ModifiedAt.After(old.ModifiedAt) {
				h.past.grown[sid] = pastOne{backend, p}
			}
			continue // it was read
		}
		there[sid] = true
		if old != nil && old.ModifiedAt.Equal(sum.ModifiedAt) && old.Info.Title == sum.Info.Title {
			continue
		}
		h.past.unread[sid] = pastOne{backend, p}
		h.indexLocked(&sum)
		c := Change{Kind: Added, Session: sid, Summary: sum, Reason: reasonCreated}
		if old != nil {
			c.Kind, c.Reason = Changed, reasonUpdated
		}
		h.tellLocked(c)
	}
	for sid, p := range h.past.unread {
		if p.backend == backend && !there[sid] && h.opening[sid] == nil {
			h.unlistLocked(sid)
		}
	}
}

// pastSummary is the session that a conversation will be when it is opened.
func (h *Host) pastSummary(backend string, p agent.PastConversation) Summary {
	made := p.CreatedAt.UTC().Truncate(time.Millisecond)
	key := conversationKey(backend, p.ID)
	info := event.SessionInfo{ID: id.Derived(made, key), CreatedAt: made, Backend: backend, Dirs: []string{filepath.Clean(p.Dir)},
		Title: clipTitle(p.Title), Settings: event.Settings{Mode: h.opt.DefaultMode}, Owner: theAgent, FromAgent: true}
	changed := p.UpdatedAt.UTC().Truncate(time.Millisecond)
	if changed.Before(made) {
		changed = made
	}
	if p.CreatedAt.IsZero() {
		info.CreatedAt = changed
	}
	chat := event.ChatInfo{ID: id.Derived(made, key+"\x00chat"), CreatedAt: info.CreatedAt, Conversation: p.ID,
		Origin: event.Origin{Kind: event.OriginUser}}
	return Summary{Info: info, ModifiedAt: changed, Status: Idle, Default: chat.ID, Past: true,
		Chats: []ChatSummary{{Info: chat, Status: Idle, ModifiedAt: changed}}}
}

// theAgent is who does what an agent does by itself.
var theAgent = event.Actor{Front: "agent"}

// adoptLocked takes conversations out of the list that a session of the
// gateway turns out to have.
func (h *Host) adoptLocked(sum *Summary) {
	for _, c := range sum.Chats {
		owner, ok := h.past.owner[conversationKey(sum.Info.Backend, c.Info.Conversation)]
		if _, unread := h.past.unread[owner]; ok && unread && owner != sum.Info.ID {
			h.unlistLocked(owner)
		}
	}
}

// unlistLocked takes one out of the index.
func (h *Host) unlistLocked(sid id.ID) {
	sum := *h.index[sid]
	h.unindexNames(sid)
	delete(h.index, sid)
	delete(h.past.unread, sid)
	h.tellLocked(Change{Kind: Removed, Session: sid, Summary: sum, Reason: reasonDeleted})
}

func (h *Host) tellLocked(c Change) {
	for w := range h.watchers {
		w.push(c)
	}
}

// deletePast deletes a session that is only listed. It reports whether it was
// one.
func (h *Host) deletePast(ctx context.Context, sid id.ID) (done bool, err error) {
	h.mu.Lock()
	p, unread := h.past.unread[sid]
	if !unread || h.opening[sid] != nil {
		h.mu.Unlock()
		return false, nil
	}
	put := h.buryLocked(p.backend, p.ID)
	h.unlistLocked(sid)
	h.mu.Unlock()
	return true, store.Wait(ctx, h.store.Commit(store.Batch{Put: put}))
}

// buryLocked keeps a conversation out of later lists, also after a restart
// once the records are stored. The caller holds mu.
func (h *Host) buryLocked(backend, conversation string) []store.KV {
	if conversation == "" {
		return nil
	}
	k := buriedKey(conversationKey(backend, conversation))
	h.past.buried[k] = true
	return []store.KV{{Key: k, Value: []byte(now().Format(time.RFC3339))}}
}

// bury does so for a conversation that the session has no more.
func (s *Session) bury(conversation string) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.w.put = append(s.w.put, s.host.buryLocked(s.work.Info.Backend, conversation)...)
}

// loadBuried reads which conversations are not listed, and forgets those that
// are too old for the list anyway.
func (h *Host) loadBuried(ctx context.Context) error {
	oldest := time.Now().Add(-PastAge)
	var old []string
	for after := ""; ; {
		kvs, err := h.store.Scan(ctx, buriedPrefix, after, 1000, false)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			if at, err := time.Parse(time.RFC3339, string(kv.Value)); err == nil && at.Before(oldest) {
				old = append(old, kv.Key)
				continue
			}
			h.past.buried[kv.Key] = true
		}
		if len(kvs) < 1000 {
			break
		}
		after = kvs[len(kvs)-1].Key
	}
	if len(old) == 0 {
		return nil
	}
	return store.Wait(ctx, h.store.Commit(store.Batch{Delete: old}))
}
