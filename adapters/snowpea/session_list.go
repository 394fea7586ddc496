package snowpea

import (
	"context"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type sessionRow struct {
	SessionID        string  `json:"sessionId"`
	Workdir          string  `json:"workdir"`
	WorkspaceDir     *string `json:"workspaceDir"`
	Mode             string  `json:"mode"`
	Provider         *string `json:"provider"`
	Model            *string `json:"model"`
	Effort           *string `json:"effort"`
	Agent            *string `json:"agent"`
	Title            *string `json:"title"`
	Kind             string  `json:"kind"`
	ParentSessionID  *string `json:"parentSessionId"`
	JobID            *string `json:"jobId"`
	OriginSurface    *string `json:"originSurface"`
	HostToolsFrom    *string `json:"hostToolsFrom"`
	BrowserProvider  *string `json:"browserProvider"`
	CreatedAt        string  `json:"createdAt"`
	LastActivityAt   *string `json:"lastActivityAt"`
	LastPrompt       *string `json:"lastPrompt"`
	Status           string  `json:"status"`
	Running          bool    `json:"running"`
	TurnStartedAt    *string `json:"turnStartedAt"`
	PendingApprovals int     `json:"pendingApprovals"`
	PendingQuestions int     `json:"pendingQuestions"`
	ContextUsed      int64   `json:"contextUsed"`
	ContextWindow    *int64  `json:"contextWindow"`
	Seq              uint64  `json:"seq"`
}

func sessionList(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		IncludeClosed   bool      `json:"includeClosed"`
		IncludeUnhosted bool      `json:"includeUnhosted"`
		HostToolsFrom   *string   `json:"hostToolsFrom"`
		Workdir         *string   `json:"workdir"`
		Kinds           *[]string `json:"kinds"`
	}](r)
	if err != nil {
		return nil, err
	}
	rows := []sessionRow{}
	for _, s := range c.front.host.List(host.Filter{IncludeClosed: p.IncludeClosed, IncludeArchived: p.IncludeClosed}) {
		owner := metaString(s.Info.Meta, metaOwner)
		switch {
		case p.Workdir != nil && (len(s.Info.Dirs) == 0 || s.Info.Dirs[0] != *p.Workdir):
			continue
		case p.HostToolsFrom != nil && owner != *p.HostToolsFrom && !(owner == "" && p.IncludeUnhosted):
			continue
		}
		for _, chat := range s.Chats {
			kind := chatKind(chat.Info)
			if chat.Info.ID != s.Default && chat.Info.Archived && !p.IncludeClosed || p.Kinds != nil && !slices.Contains(*p.Kinds, kind) {
				continue
			}
			row, err := c.front.row(ctx, &s, chat)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return map[string]any{"sessions": rows}, nil
}

func chatKind(c event.ChatInfo) string {
	if c.Origin.Kind == event.OriginSubagent {
		return "subagent"
	}
	return "chat"
}

func defaultChat(s *host.Summary) host.ChatSummary {
	for _, c := range s.Chats {
		if c.Info.ID == s.Default {
			return c
		}
	}
	return host.ChatSummary{Status: host.Idle}
}

// listStatus is how a chat of a summary stands.
func listStatus(s *host.Summary, c host.ChatSummary) string {
	switch c.Status {
	case host.AwaitingApproval:
		return statusApproval
	case host.AwaitingQuestion:
		return statusQuestion
	case host.Running:
		return statusRunning
	case host.Failed:
		if c.Info.ID == s.Default && doneReason(&event.TurnEnded{Status: event.TurnFailed, Error: s.LastError}) != "error" {
			return statusIdle
		}
		return statusError
	}
	return statusIdle
}

// row is one chat as session.list shows it. What only a session in memory
// knows is taken from there.
func (f *Front) row(ctx context.Context, s *host.Summary, c host.ChatSummary) (sessionRow, error) {
	isDefault := c.Info.ID == s.Default
	info := &s.Info
	row := sessionRow{SessionID: info.ID.String(), Mode: modeName(info.Settings.Mode), Provider: ptr(info.Backend),
		Model: ptr(info.Settings.Model), Effort: effortName(info.Settings.Effort), Agent: ptr(info.Settings.Agent),
		Title: ptr(info.Title), Kind: chatKind(c.Info), OriginSurface: ptr(originSurface(info)),
		HostToolsFrom: ptr(metaString(info.Meta, metaOwner)), CreatedAt: stamp(info.CreatedAt),
		LastActivityAt: ptr(stamp(c.ModifiedAt)), LastPrompt: ptr(s.LastPrompt), Status: listStatus(s, c),
		WorkspaceDir: ptr(f.workspaceIfAny(info))}
	if len(info.Dirs) > 0 {
		row.Workdir = info.Dirs[0]
	}
	if isDefault {
		if command, ok := commandOf(info.Meta); ok && s.LastPrompt == "" {
			row.LastPrompt = &command.Line
		}
	} else {
		row.SessionID, row.Title, row.CreatedAt, row.LastPrompt = c.Info.ID.String(), ptr(c.Info.Title), stamp(c.Info.CreatedAt), nil
		row.ParentSessionID = ptr(spell(s, c.Info.Origin.Chat))
		if c.Info.Agent != "" {
			row.Agent = ptr(c.Info.Agent)
		}
	}
	fold, err := f.foldOf(ctx, s)
	if err != nil {
		return row, err
	}
	if x := fold.Chats[c.Info.ID]; x != nil {
		row.Seq, row.ContextUsed, row.ContextWindow = x.Seq, x.Used, ptr(x.Window)
	}
	f.addLive(&row, s, c.Info.ID)
	row.Running = row.Status == statusRunning || row.Status == statusApproval || row.Status == statusQuestion
	return row, nil
}

// addLive adds what the session's state knows and its summary does not, or not
// yet.
func (f *Front) addLive(row *sessionRow, s *host.Summary, chat id.ID) {
	if !s.Live {
		return
	}
	t := f.track(s.Info.ID)
	t.mu.Lock()
	session := t.session
	t.mu.Unlock()
	if session == nil {
		return
	}
	st := session.State()
	row.Status = statusOf(st, chat)
	if x := st.Chat(chat); x != nil && row.Status == statusIdle && len(x.Turns) > 0 {
		if t := x.Turns[len(x.Turns)-1]; t.Status == event.TurnFailed &&
			doneReason(&event.TurnEnded{Status: t.Status, Error: t.Error, Synthetic: t.Synthetic}) == "error" {
			row.Status = statusError
		}
	}
	for _, i := range st.Open {
		if i.Chat != chat {
			continue
		}
		switch i.Kind {
		case event.Approval:
			row.PendingApprovals++
		case event.Question:
			row.PendingQuestions++
		}
	}
	if x := st.Chat(chat); x != nil && x.Active != nil {
		row.TurnStartedAt = ptr(stamp(x.Active.StartedAt))
	}
}

// foldOf is the numbering of a listed session: a copy of what is live, or the
// newest mark, or, after a crash took that, folded again.
func (f *Front) foldOf(ctx context.Context, s *host.Summary) (*fold, error) {
	copied := func(t *track) *fold {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.session == nil {
			return nil
		}
		x := &fold{Chats: make(map[id.ID]*chatFold, len(t.fold.Chats))}
		for chat, c := range t.fold.Chats {
			x.Chats[chat] = &chatFold{Seq: c.Seq, Used: c.Used, Window: c.Window}
		}
		return x
	}
	if x := copied(f.track(s.Info.ID)); x != nil {
		return x, nil
	}
	if x, ok := f.keeper.last(ctx, s.Info.ID); ok && x.Seq == s.Seq {
		return x, nil
	}
	t, _, err := f.live(ctx, s.Info.ID)
	if err != nil {
		return nil, err
	}
	if x := copied(t); x != nil {
		return x, nil
	}
	return newFold(s.Info.ID), nil
}

// spell is a chat's id as clients know it.
func spell(s *host.Summary, chat id.ID) string {
	if chat == s.Default {
		return s.Info.ID.String()
	}
	return chat.String()
}

func originSurface(info *event.SessionInfo) string {
	if s := metaString(info.Meta, metaSurface); s != "" {
		return s
	}
	return info.Owner.Front
}

// effortName is an effort the protocol has a word for.
func effortName(effort string) *string {
	if slices.Contains(tiers, effort) {
		return &effort
	}
	return nil
}
