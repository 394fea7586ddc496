package claude

import (
	"maps"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// result ends one of the CLI's turns.
func (m *mapper) result(r *record) {
	m.running = false
	if !r.IsError {
		m.identify(r.SessionID)
	}
	end := agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete}
	switch {
	case m.interrupted || strings.HasPrefix(r.Terminal, "aborted"):
		end.Status = event.TurnCancelled
	case r.IsError:
		end.Status, end.Error = event.TurnFailed, failure(r)
	}
	if !m.open {
		if end.Error != nil {
			m.failure = end.Error.Message
		}
		return
	}
	m.closeBlocks()
	m.put(m.usage.report(r)...)
	background := r.Origin != nil && r.Origin.Kind != "" && r.Origin.Kind != "human"
	waits := len(m.sent) > 0 && (m.lifecycle || background)
	switch {
	case m.interrupted:
		m.finish(end)
	case waits:
		// The CLI goes on with what was said meanwhile.
		if end.Error != nil {
			m.notice("error", end.Error.Code, end.Error.Message)
		}
	case m.working() > 0:
		m.held = &end
	default:
		m.finish(end)
	}
}

// failure says what a failed result is.
func failure(r *record) *event.Error {
	said := r.Result
	if said == "" {
		said = strings.Join(slices.DeleteFunc(slices.Clone(r.Errors), func(e string) bool { return strings.HasPrefix(e, "[ede_diagnostic]") }), "; ")
	}
	code := event.CodeAgentError
	low := strings.ToLower(said)
	switch {
	case r.Subtype == "error_max_turns":
		code, said = event.CodeMaxTurns, words(said, "the agent made as many model calls as one turn may have")
	case r.StopReason == "refusal":
		code = event.CodeRefusal
	case strings.Contains(low, "prompt is too long") || strings.Contains(low, "context window") || strings.Contains(low, "context limit"):
		code = event.CodeOverflow
	case strings.Contains(low, "output token maximum"):
		code = event.CodeMaxTokens
	case r.APIStatus == 401 || r.APIStatus == 403 || strings.Contains(low, "/login") || strings.Contains(low, "invalid api key"):
		code = event.CodeAuth
	case r.APIStatus == 429 || r.APIErrorType == "rate_limit_error":
		code = event.CodeRateLimited
	case r.APIStatus == 529 || r.APIStatus == 503 || r.APIErrorType == "overloaded_error":
		code = event.CodeOverloaded
	case r.APIError == "connection_failed" || strings.Contains(low, "connection lost"):
		code = event.CodeCutStream
	case r.APIStatus >= 400 && r.APIStatus < 500:
		code = event.CodeBadRequest
	}
	again := code == event.CodeRateLimited || code == event.CodeOverloaded || code == event.CodeCutStream
	return &event.Error{Code: code, Message: words(said, "the agent failed without saying why"), Retryable: again}
}

// usage turns the CLI's sums, which go on over the whole conversation, into
// what each turn added.
type usage struct {
	model string
	sums  map[string]modelUsage
	used  tokens // of the newest model call
}

func newUsage() usage { return usage{sums: map[string]modelUsage{}} }

// at notes the beginning of a model call.
func (u *usage) at(model string, t *tokens) {
	if model != "" && model != "<synthetic>" {
		u.model = model
	}
	if t != nil {
		u.used = *t
	}
}

// more notes what the end of a model call says: the output, and for some the
// whole input again.
func (u *usage) more(t *tokens) {
	if t == nil {
		return
	}
	u.used.Output = t.Output
	if t.Input > 0 {
		u.used.Input, u.used.CacheRead, u.used.CacheWrite = t.Input, t.CacheRead, t.CacheWrite
	}
}

func (u *usage) report(r *record) (frames []agent.Frame) {
	added := r.SinceLast
	if added == nil {
		added = map[string]modelUsage{}
		for name, sum := range r.ModelUsage {
			added[name] = sum.less(u.sums[name])
		}
	}
	for name, sum := range r.ModelUsage {
		u.sums[name] = sum
	}
	var window int64
	for _, name := range slices.Sorted(maps.Keys(added)) {
		a := added[name]
		if name == u.model || window == 0 {
			window = a.Window
		}
		if a.Input+a.Output+a.CacheRead+a.CacheWrite > 0 || a.CostUSD > 0 {
			frames = append(frames, agent.Frame{Kind: agent.Usage, Usage: &event.Usage{Input: a.Input, Output: a.Output,
				CacheRead: a.CacheRead, CacheWrite: a.CacheWrite, Reasoning: a.Thinking, CostUSD: a.CostUSD, Model: name}})
		}
	}
	if used := u.used.Input + u.used.CacheRead + u.used.CacheWrite + u.used.Output; used > 0 && window > 0 {
		frames = append(frames, agent.Frame{Kind: agent.Context, Context: &event.ContextReported{Used: used, Window: window}})
	}
	return frames
}

func (a modelUsage) less(b modelUsage) modelUsage {
	a.Input = max(0, a.Input-b.Input)
	a.Output = max(0, a.Output-b.Output)
	a.CacheRead = max(0, a.CacheRead-b.CacheRead)
	a.CacheWrite = max(0, a.CacheWrite-b.CacheWrite)
	a.Thinking = max(0, a.Thinking-b.Thinking)
	a.CostUSD = max(0, a.CostUSD-b.CostUSD)
	return a
}

// waitsToFollow: the turn is held for subagents that have all ended, and the
// CLI has not begun to go on.
func (m *mapper) waitsToFollow() bool {
	return m.open && m.held != nil && m.working() == 0 && !m.running
}
