// Package devcontainer brings up the containers that folders describe in their
// devcontainer.json, by the programs docker and devcontainer, and relays frames
// between a client and a gateway that is started in a container. It knows no
// protocol: a frame is a line.
//
//   - Ordering: frames arrive in the order they were sent, both ways.
//   - Loss: a frame that cannot be passed on ends its relay.
//   - Bounds: one relay a folder, frames of MaxFrame bytes, and nothing is queued.
//   - Blocking: what a relay tells waits for who listens, and so in the end does the
//     gateway in the container; Send waits for that gateway, for sendWithin.
//
// What a devcontainer.json says is done on this machine: who lets somebody bring up
// the container of a folder trusts both.
package devcontainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Errors that callers tell apart. Their wrapped texts are fit for clients.
var (
	// ErrMissing: a program is not installed.
	ErrMissing = errors.New("not installed")
	// ErrBusy: somebody else has a relay into the container of the folder.
	ErrBusy = errors.New("another client has a relay into that container")
	// ErrFailed: a program, or the gateway in the container, did not do it.
	ErrFailed = errors.New("failed")
	// ErrEnded: the relay is over.
	ErrEnded = errors.New("the relay has ended")
)

// Containers are the containers of this machine's folders.
type Containers struct {
	docker, cli string
	env         []string // of the programs, NAME=value

	mu    sync.Mutex
	taken map[string]chan struct{} // folders with a relay, or whose container is stopped now; closed when free
}

// New uses these programs: names that are looked for on the PATH, or paths. They get
// env beside what every program gets.
func New(docker, cli string, env ...string) *Containers {
	return &Containers{docker: docker, cli: cli, env: env, taken: map[string]chan struct{}{}}
}

// Listener hears a relay. Its functions may block, and are called from two
// goroutines; a frame may be kept.
type Listener struct {
	// Output is what the programs and the container write beside frames.
	Output func(text string)
	// Frame is one from the gateway in the container.
	Frame func(frame []byte)
}

// Available reports whether the programs are there.
func (c *Containers) Available() bool {
	for _, program := range []string{c.docker, c.cli} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

// take takes a folder, if it is free within a time.
func (c *Containers) take(ctx context.Context, folder string, within time.Duration) (free func(), err error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		c.mu.Lock()
		before, taken := c.taken[folder]
		if !taken {
			mine := make(chan struct{})
			c.taken[folder] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.taken, folder)
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-before:
		case <-timer.C:
			return nil, ErrBusy
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// up is what the program says of a container that is there.
type up struct {
	Outcome   string `json:"outcome"`
	Container string `json:"containerId"`
	Folder    string `json:"remoteWorkspaceFolder"`
	Message   string `json:"message"`
}

// bring brings up the container of a folder.
func (c *Containers) bring(ctx context.Context, folder string, output func(string)) (up, error) {
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	answer, err := c.run(ctx, output, c.cli, "up", "--workspace-folder", folder)
	u := lastAnswer(answer)
	switch {
	case ctx.Err() != nil:
		return u, ctx.Err()
	case u.Outcome == "success" && u.Container != "" && strings.HasPrefix(u.Folder, "/"):
		return u, nil
	case u.Message != "":
		return u, fmt.Errorf("bring up the container: %w: %s", ErrFailed, clip(u.Message))
	case err != nil:
		return u, fmt.Errorf("bring up the container: %w", err)
	}
	return u, fmt.Errorf("bring up the container: %w: %s does not say where it is", ErrFailed, c.cli)
}

// lastAnswer finds the answer among the lines that the program wrote: the last
// that is one.
func lastAnswer(out []byte) up {
	var u up
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		u = up{}
		if json.Unmarshal([]byte(lines[i]), &u) == nil && u.Outcome != "" {
			return u
		}
	}
	return up{}
}

// Stop stops the container of a folder, or removes it; that there is none is no
// error. It reports false, and does nothing, while there is a relay into it.
func (c *Containers) Stop(ctx context.Context, folder string, remove bool) (bool, error) {
	free, err := c.take(ctx, folder, 0)
	if errors.Is(err, ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, dockerWithin)
	defer cancel()
	quiet := func(string) {}
	// The label is the program's own, and how it finds its containers, too.
	out, err := c.run(ctx, quiet, c.docker, "ps", "--all", "--quiet", "--filter", "label=devcontainer.local_folder="+folder)
	if err != nil {
		return false, fmt.Errorf("find the container: %w", err)
	}
	for _, id := range strings.Fields(string(out)) {
		args := []string{"stop", id}
		if remove {
			args = []string{"rm", "--force", id}
		}
		if _, err := c.run(ctx, quiet, c.docker, args...); err != nil {
			return false, fmt.Errorf("%s the container: %w", args[0], err)
		}
	}
	return true, nil
}

func clip(s string) string {
	if s = strings.TrimSpace(s); len(s) > maxWords {
		s = s[:maxWords] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
