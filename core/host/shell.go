package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/terminal"
)

// commandTool is the name of the call that a person's own command is shown as.
const commandTool = "bash"

// runCommand runs the command that the running turn's message is. The agent is
// not told before its next prompt.
func (s *Session) runCommand(r *run) {
	m, turn := r.message, r.turn
	dirs := s.dirs(r)
	if err := s.host.CheckDirs(dirs); err != nil {
		s.end(r, event.TurnFailed, &event.Error{Code: event.CodeAgentStart, Message: err.Error()}, event.Gateway)
		return
	}
	input, err := json.Marshal(map[string]string{"command": m.Command})
	if err != nil {
		panic(err) // a string always encodes
	}
	c := &call{part: id.New(), name: commandTool,
		tool: agent.Tool{Name: commandTool, Title: clipTitle(m.Command), Tag: event.TagExec, Input: input}}
	c.id = c.part.String()
	o := terminal.Open{ID: id.New(), Command: m.Command, Dir: dirs[0],
		Owner: terminal.Owner{Session: s.id, Chat: r.chat, Turn: turn.String(), Call: c.id}}
	r.calls[c.id] = c
	r.emit(&event.PartStarted{Part: event.Part{ID: c.part, Kind: event.PartTool, StartedAt: s.at, Tool: &event.Tool{
		Call: c.id, Name: c.name, Title: c.tool.Title, Tag: c.tool.Tag, Status: event.CallStreaming, Input: input, Terminal: o.ID}}})
	r.ready(c)
	c.running = true
	r.emit(&event.ToolRunning{Part: c.part, Allowed: "person", By: m.By})
	ctx, cancel := context.WithCancel(s.host.ctx)
	r.stopCommand = cancel
	s.host.wg.Go(func() {
		defer cancel()
		s.followCommand(ctx, o, func(f func(c *call)) {
			select {
			case s.cmds <- func() {
				if r.turn == turn {
					f(c)
				}
			}:
			case <-s.gone:
			}
		}, r)
	})
}

// followCommand runs a command and hands what it writes to the session, at the
// session's pace. in runs something on the session's goroutine while the turn
// runs.
func (s *Session) followCommand(ctx context.Context, o terminal.Open, in func(func(*call)), r *run) {
	t, err := s.host.terminals.Open(o)
	if err != nil {
		s.log.Warn("A command cannot be run", "err", err)
		in(func(c *call) {
			s.toolEnd(r, c, &agent.Result{Failed: true, Error: "the command could not be started"})
			s.end(r, event.TurnComplete, nil, event.Gateway)
		})
		return
	}
	var (
		mu      sync.Mutex
		waiting []byte
		lost    int64
		more    = make(chan struct{}, 1)
		plain   terminal.Plain
	)
	write := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if room := MaxToolOutput - len(waiting); len(text) > room {
			lost += int64(len(text) - room)
			text = validPrefix(text, room)
		}
		waiting = append(waiting, text...)
		select {
		case more <- struct{}{}:
		default:
		}
	}
	t.Watch(func(st *terminal.State) {
		for _, p := range st.Parts {
			write(string(p.Text))
		}
	}, func(e *terminal.Event) {
		if e.Kind == terminal.Data {
			write(e.Text)
		}
	})
	show := func() {
		mu.Lock()
		text, dropped := plain.Text(string(waiting)), lost
		waiting, lost = waiting[:0], 0
		mu.Unlock()
		in(func(c *call) {
			c.dropped += dropped
			r.output(c, &agentFrame{Text: text})
		})
	}
	for {
		select {
		case <-ctx.Done(): // the turn was ended
			t.End()
			return
		case <-more:
			show()
			continue
		case <-t.Done():
		}
		show()
		var code *int
		t.View(func(st *terminal.State) { code = st.Code })
		in(func(c *call) {
			res := &agent.Result{ExitCode: code}
			if code == nil || *code != 0 {
				res.Failed, res.Error = true, "the command failed"
				if code != nil {
					res.Error = fmt.Sprintf("exit code %d", *code)
				}
			}
			s.toolEnd(r, c, res)
			s.end(r, event.TurnComplete, nil, event.Gateway)
		})
		return
	}
}

// commandsBefore tells the agent of the commands that a person ran since its
// last turn.
func commandsBefore(c *state.Chat) string {
	first := len(c.Turns)
	for first > 0 && c.Turns[first-1].Message.Command != "" {
		first--
	}
	first = max(first, len(c.Turns)-maxToldCommands)
	var b strings.Builder
	for _, t := range c.Turns[first:] {
		if b.Len() == 0 {
			b.WriteString("Before this message I ran in the working directory:\n\n")
		}
		fmt.Fprintf(&b, "$ %s\n", t.Message.Command)
		for _, p := range t.Parts {
			if p.Tool == nil {
				continue
			}
			out := p.Tool.Output.String()
			if len(out) > maxToldOutput {
				out = "[…]" + strings.ToValidUTF8(out[len(out)-maxToldOutput:], "")
			}
			b.WriteString(strings.TrimRight(out, "\n"))
			switch {
			case p.Tool.Status == event.CallCancelled:
				b.WriteString("\n[stopped]")
			case p.Tool.Error != "":
				fmt.Fprintf(&b, "\n[%s]", p.Tool.Error)
			}
		}
		b.WriteString("\n\n")
	}
	return b.String()
}
