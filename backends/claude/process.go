package claude

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/mcpjson"
	"github.com/polyhost/polyhost/backends/internal/shellinit"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

// streamArgs make the CLI speak JSON lines and ask by them.
var streamArgs = []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
	"--include-partial-messages", "--forward-subagent-text", "--permission-prompt-tool", "stdio"}

// uuid returns a random UUID.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// control is a request line of ours.
func control(id string, request any) []byte {
	return marshal(map[string]any{"type": "control_request", "request_id": id, "request": request})
}

// begin starts a process for the conversation as it stands. The caller holds
// the lock.
func (c *conversation) begin() error {
	s, err := c.backend.spec()
	if err != nil {
		return err
	}
	s.Dir = c.open.Dirs[0]
	if key := c.open.Tokens[anthropicAPI]; key != "" {
		s.Env = append(s.Env, "ANTHROPIC_API_KEY="+key)
	}
	s.Args = append(s.Args, streamArgs...)
	if c.open.Bare {
		s.Args = append(s.Args, "--tools", "", "--strict-mcp-config", "--no-session-persistence")
	}
	for _, dir := range c.open.Dirs[1:] {
		s.Args = append(s.Args, "--add-dir", dir)
	}
	for _, dir := range c.open.Plugins {
		s.Args = append(s.Args, "--plugin-dir", dir)
	}
	switch {
	case c.m.session != "":
		s.Args = append(s.Args, "--resume", c.m.session)
	case c.open.Resume != "" && c.open.Fork:
		s.Args = append(s.Args, "--resume", c.open.Resume, "--fork-session", "--session-id", uuid())
	case c.open.Resume != "":
		s.Args = append(s.Args, "--resume", c.open.Resume)
	default:
		s.Args = append(s.Args, "--session-id", uuid())
	}
	if c.settings.Model != "" {
		s.Args = append(s.Args, "--model", c.settings.Model)
	}
	if c.settings.Effort != "" {
		s.Args = append(s.Args, "--effort", c.settings.Effort)
	}
	if c.open.Instructions != "" {
		s.Args = append(s.Args, "--append-system-prompt", c.open.Instructions)
	}
	held := mcpjson.Withhold(s.Dir, c.backend.variable)
	c.note = held.Note
	switch {
	case held.All:
		s.Args = append(s.Args, "--strict-mcp-config")
	case len(held.Names) > 0:
		s.Args = append(s.Args, "--settings", string(marshal(map[string]any{"disabledMcpjsonServers": held.Names})))
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "polyhost-claude-"); err != nil {
			return fmt.Errorf("make a folder for Claude Code's settings: %w", err)
		}
	}
	env, err := c.writeEnv()
	if err != nil {
		return err
	}
	s.Env = append(s.Env, envFile+"="+env)
	if len(c.open.MCP) > 0 {
		file, err := c.writeServers()
		if err != nil {
			return err
		}
		s.Args = append(s.Args, "--mcp-config", file)
		for _, server := range c.open.MCP {
			for _, v := range server.Headers {
				s.Secrets = append(s.Secrets, v)
			}
		}
	}
	p, err := cli.Start(s)
	if err != nil {
		return broken(err.Error())
	}
	c.proc, c.ready = p, make(chan struct{})
	ready := c.ready
	c.told = event.Settings{Model: c.settings.Model, Effort: c.settings.Effort, ShellInit: c.told.ShellInit}
	c.m.extras = extras{said: c.m.extras.said}
	c.ask(map[string]any{"subtype": "initialize"}, func(r controlResponse) {
		close(ready)
		var a initialized
		if json.Unmarshal(r.Response, &a) == nil {
			c.m.offered(&a)
		}
	})
	c.tell(c.settings, true)
	c.wg.Go(func() { c.read(p) })
	return nil
}

// writeServers puts the MCP servers into a file that only this user can read:
// their headers are secrets, which arguments are not.
func (c *conversation) writeServers() (string, error) {
	type server struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	servers := map[string]server{}
	for _, s := range c.open.MCP {
		servers[s.Name] = server{"http", s.URL, s.Headers}
	}
	file := filepath.Join(c.dir, "mcp.json")
	if err := os.WriteFile(file, marshal(map[string]any{"mcpServers": servers}), 0o600); err != nil {
		return "", fmt.Errorf("write the MCP servers' settings: %w", err)
	}
	return file, nil
}

// writeEnv makes the file that the CLI puts before its shell commands. The CLI
// reads it once, so it names the one with the script.
func (c *conversation) writeEnv() (string, error) {
	text := shellinit.Source(c.dir) + "\n"
	if own := shellinit.Quote(c.backend.variable(envFile)); own != "''" {
		text = "[ ! -f " + own + " ] || . " + own + "\n" + text
	}
	file := filepath.Join(c.dir, "env.sh")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write what precedes shell commands: %w", err)
	}
	return file, nil
}

// tell makes the CLI follow the settings; all means that it was told nothing
// but its arguments. The caller holds the lock.
func (c *conversation) tell(s event.Settings, all bool) {
	if s.Model != c.told.Model {
		model := words(s.Model, "default")
		c.ask(map[string]any{"subtype": "set_model", "model": model}, c.logged("set the model"))
	}
	if s.Effort != c.told.Effort {
		var effort any // null takes it back
		if s.Effort != "" {
			effort = s.Effort
		}
		c.ask(map[string]any{"subtype": "apply_flag_settings", "settings": map[string]any{"effortLevel": effort}}, c.logged("set the effort"))
	}
	// The agent may leave plan mode by itself, so the mode is always said.
	if all || permissionMode(s.Mode) != permissionMode(c.told.Mode) || s.Mode == event.ModePlan {
		c.ask(map[string]any{"subtype": "set_permission_mode", "mode": permissionMode(s.Mode)}, c.logged("set the mode"))
	}
	if s.ShellInit != c.told.ShellInit {
		if err := shellinit.Write(c.dir, s.ShellInit); err != nil {
			c.backend.log().Warn("The script of a session's shells does not count", "chat", c.open.Chat, "error", err)
			c.m.notice("warning", "agent", "The shells' init script could not be written")
		}
	}
	c.told = s
}

func (c *conversation) logged(what string) func(controlResponse) {
	return func(r controlResponse) {
		if r.Subtype != "success" {
			c.backend.log().Warn("Claude Code refuses a setting", "chat", c.open.Chat, "what", what, "error", r.Error)
			c.m.notice("warning", "agent", "Claude Code could not "+what+": "+r.Error)
		}
	}
}

// ask sends a request; answer is called under the lock. The caller holds it.
func (c *conversation) ask(request any, answer func(controlResponse)) {
	c.serial++
	id := fmt.Sprintf("c%d", c.serial)
	c.controls[id] = answer
	c.write(control(id, request))
}

// write hands a line to the process; one that does not read is stopped.
func (c *conversation) write(line []byte) {
	if p := c.proc; p != nil && line != nil {
		if err := p.Write(line); errors.Is(err, cli.ErrFull) {
			c.stop(p)
		}
	}
}

// stop ends a process; its reader says how its turn ended.
func (c *conversation) stop(p *cli.Proc) { c.wg.Go(func() { _ = p.Kill() }) }

// read maps what a process says, until it has ended.
func (c *conversation) read(p *cli.Proc) {
	defer p.Release()
	for {
		line, err := p.Next()
		var long *lines.TooLongError
		switch {
		case errors.As(err, &long):
			c.handle(p, func() {
				c.m.notice("warning", "truncated", fmt.Sprintf("Claude Code said something of %d MiB, which is left out", long.Length>>20))
			})
			continue
		case err != nil:
			<-p.Done()
			c.handle(p, func() { c.ended(p) })
			return
		}
		c.handle(p, func() {
			if err := c.m.record(line); err != nil {
				p.Noise(line)
			}
		})
	}
}

// handle changes the state and says the frames that come of it, if the process
// is still the conversation's.
func (c *conversation) handle(p *cli.Proc, change func()) {
	c.mu.Lock()
	if c.proc != p {
		c.mu.Unlock()
		return
	}
	cancelled := c.m.open && c.m.interrupted
	change()
	if cancelled && !c.m.open {
		c.endStrays()
	}
	frames := c.after()
	c.mu.Unlock()
	if len(frames) > 0 {
		_ = c.out.Put(c.ctx, frames...)
	}
}

// after does what the mapper left to be done, and returns the frames to say.
// The caller holds the lock.
func (c *conversation) after() []agent.Frame {
	frames, replies, answered := c.m.take()
	for _, r := range replies {
		c.write(r)
	}
	for _, a := range answered {
		if f := c.controls[a.RequestID]; f != nil {
			delete(c.controls, a.RequestID)
			f(a)
		}
	}
	if c.m.extras.stale {
		c.m.extras.stale = false
		c.askServers()
	}
	if len(answered) > 0 {
		more, _, _ := c.m.take()
		frames = append(frames, more...)
	}
	if !c.m.open || !c.m.interrupted {
		c.stopTimer(&c.interrupting)
	}
	if waits := c.m.waitsToFollow(); waits && c.following == nil {
		c.following = time.AfterFunc(followBound, c.unfollowed)
	} else if !waits {
		c.stopTimer(&c.following)
	}
	return frames
}

// commandMark is the setting that the CLI gives its shell commands, and them
// alone.
const commandMark = "CLAUDECODE=1"

// endStrays ends what the commands of a cancelled turn left behind: the CLI
// ends their process group, and what has left it goes on. The caller holds the
// lock.
func (c *conversation) endStrays() {
	p := c.proc
	if p == nil {
		return
	}
	if err := p.EndOthers(c.keep, commandMark); err != nil {
		c.backend.log().Warn("Claude Code's commands do not end", "chat", c.open.Chat, "error", err)
		c.stop(p)
	}
}

func (c *conversation) stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// ended: the process is gone. The caller holds the lock.
func (c *conversation) ended(p *cli.Proc) {
	c.proc = nil
	clear(c.controls)
	c.m.extras.lent = nil
	how := p.Exit()
	if c.m.failure != "" {
		how, c.m.failure = c.m.failure, ""
	}
	c.exit = how
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
	if c.m.open {
		c.backend.log().Warn("Claude Code ended in a turn", "chat", c.open.Chat, "how", how)
	}
	c.m.died("Claude Code ended: " + how)
}

// first starts the first process and waits for its first answer.
func (c *conversation) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	c.mu.Lock()
	err := c.begin()
	ready := c.ready
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		c.mu.Lock()
		c.stop(c.proc) // it need not be asked to end
		c.mu.Unlock()
		return broken("it does not answer in time")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.proc != nil:
		return nil
	case c.open.Resume != "":
		return fmt.Errorf("the conversation %s cannot be resumed: %s", c.open.Resume, c.exit)
	}
	return broken(c.exit)
}
