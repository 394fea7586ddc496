package zidane

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
)

// recentTurns visits the newest turns of the newest sessions until visit says
// that it has enough. It reports whether there was more than it looked at.
func (c *call) recentTurns(ctx context.Context, cwd string, visit func(session string, t *state.Turn) bool) (more bool, err error) {
	list := c.newestFirst(cwd)
	more = len(list) > searchedSessions
	for _, sum := range list[:min(len(list), searchedSessions)] {
		if sum.Past {
			continue // nobody has opened it here: a search does not read an agent's files
		}
		s, err := c.host.Session(ctx, sum.Info.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		st := s.State()
		chat := st.DefaultChat()
		if chat == nil {
			continue
		}
		turns, err := s.Turns(ctx, chat.ID, -1, searchedTurns)
		if err != nil {
			return more, err
		}
		more = more || chat.Count > len(turns)
		if chat.Active != nil {
			turns = append(slices.Clip(turns), chat.Active)
		}
		for _, t := range slices.Backward(turns) {
			if !visit(sum.Info.ID.String(), t) {
				return true, nil
			}
		}
	}
	return more, nil
}

type historyRow struct {
	Text      string `json:"text"`
	SessionID string `json:"sessionId"`
	At        int64  `json:"at"`
}

// historyList lists what people asked, newest first, each text once.
func historyList(ctx context.Context, c *call, p struct {
	Cwd   string `json:"cwd"`
	Query string `json:"query"`
	Limit *int   `json:"limit"`
}) (any, error) {
	limit, err := hitLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	since := max(c.clearedAt(ctx, ""), c.clearedAt(ctx, p.Cwd))
	query := strings.ToLower(p.Query)
	rows := []historyRow{}
	_, err = c.recentTurns(ctx, p.Cwd, func(session string, t *state.Turn) bool {
		at := t.Message.At.UnixMilli()
		if !t.Message.System && at > since && strings.Contains(strings.ToLower(t.Message.Text), query) {
			rows = append(rows, historyRow{t.Message.Text, session, at})
		}
		return true
	})
	slices.SortStableFunc(rows, func(a, b historyRow) int { return cmp.Compare(b.At, a.At) })
	seen := map[string]bool{}
	rows = slices.DeleteFunc(rows, func(r historyRow) bool {
		old := seen[r.Text]
		seen[r.Text] = true
		return old
	})
	return struct {
		Prompts []historyRow `json:"prompts"`
	}{rows[:min(limit, len(rows))]}, err
}

func clearedKey(cwd string) string {
	if cwd == "" {
		return keyHistoryCleared
	}
	return keyHistoryCleared + filepath.Clean(cwd)
}

func (f *Front) clearedAt(ctx context.Context, cwd string) int64 {
	b, err := f.kv.Get(ctx, clearedKey(cwd))
	if err != nil {
		return 0
	}
	at, _ := strconv.ParseInt(string(b), 10, 64)
	return at
}

// historyClear forgets the prompts until now, of a folder or of all. The
// transcripts stay.
func historyClear(ctx context.Context, c *call, p struct {
	Cwd string `json:"cwd"`
}) (any, error) {
	if p.Cwd != "" {
		if _, err := c.workDir(p.Cwd); err != nil {
			return nil, err
		}
	}
	return okResult{true}, c.kv.Set(ctx, clearedKey(p.Cwd), strconv.AppendInt(nil, time.Now().UnixMilli(), 10))
}

type hit struct {
	SessionID string `json:"sessionId"`
	TurnID    string `json:"turnId"`
	Snippet   string `json:"snippet"`
	At        int64  `json:"at"`
}

// searchSessions finds a text in prompts and answers, in the newest sessions
// first.
func searchSessions(ctx context.Context, c *call, p struct {
	Query string `json:"query" jsonx:"required"`
	Cwd   string `json:"cwd"`
	Limit *int   `json:"limit"`
}) (any, error) {
	limit, err := hitLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.Query == "" || len(p.Query) > maxText {
		return nil, badField("query", "want 1 to %d bytes", maxText)
	}
	out := struct {
		Hits      []hit `json:"hits"`
		Truncated bool  `json:"truncated"`
	}{Hits: []hit{}}
	out.Truncated, err = c.recentTurns(ctx, p.Cwd, func(session string, t *state.Turn) bool {
		if s, ok := snippet(t.Message.Text, p.Query); ok {
			out.Hits = append(out.Hits, hit{session, t.Message.ID.String(), s, t.Message.At.UnixMilli()})
		} else if s, ok := inAnswer(t, p.Query); ok {
			out.Hits = append(out.Hits, hit{session, t.ID.String(), s, t.StartedAt.UnixMilli()})
		}
		return len(out.Hits) < limit
	})
	return out, err
}

func inAnswer(t *state.Turn, query string) (string, bool) {
	for _, p := range t.Parts {
		if p.Kind == event.PartText {
			if s, ok := snippet(p.Text.String(), query); ok {
				return s, true
			}
		}
	}
	return "", false
}

// snippet is the text around the first place where query is found.
func snippet(text, query string) (string, bool) {
	lower := strings.ToLower(text)
	i := strings.Index(lower, strings.ToLower(query))
	if i < 0 {
		return "", false
	}
	if len(lower) != len(text) { // lowering moved the bytes
		i = 0
	}
	from, to := max(0, i-snippetBytes/4), min(len(text), i+snippetBytes)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return oneLine(text[from:to]), true
}
