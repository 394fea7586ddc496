package wiretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Place is where one gateway lives: scripts run side by side, each with its own.
type Place struct {
	Home string
	Work string
	Env  []string // NAME=value
	Args []string // further arguments of serve
}

// Gateway starts and ends what the scripts talk to. Start may be called again
// for a place whose gateway has ended.
type Gateway interface {
	Start(Place) (Endpoints, error)
	Stop(Place) error   // politely, and wait
	Kill(Place) error   // kill -9, and wait
	Log(p Place) string // the end of what it has logged
}

// Judging is a Gateway that has the frames of fronts held against their
// protocols, whatever the script expects.
type Judging interface {
	Gateway
	Judge(front string) Judge // of one new WebSocket; nil for a front that nobody judges
}

// Judge sees every frame of one connection, in order.
type Judge interface {
	Sent(frame []byte)           // by the client
	Received(frame []byte) error // from the gateway: what is wrong with it
}

// Binary is a Gateway that runs the polyhost program.
type Binary struct {
	path string

	mu      sync.Mutex
	running map[string]*process // by home
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Build compiles the package, like ./cmd/polyhost, into dir.
func Build(ctx context.Context, pkg, dir string) (*Binary, error) {
	path := filepath.Join(dir, "polyhost")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return &Binary{path: path, running: map[string]*process{}}, nil
}

// Path is the compiled program.
func (b *Binary) Path() string { return b.path }

func logFile(p Place) string { return p.Home + ".log" }

// Start runs serve and waits for endpoints.json of the new process.
func (b *Binary) Start(p Place) (Endpoints, error) {
	log, err := os.OpenFile(logFile(p), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(b.path, append([]string{"serve", "--home", p.Home, "--port-base", "0"}, p.Args...)...)
	cmd.Dir = p.Work
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.Home), "TMPDIR=" + os.TempDir()}, p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	proc := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		proc.err = cmd.Wait()
		close(proc.done)
	}()
	b.mu.Lock()
	b.running[p.Home] = proc
	b.mu.Unlock()

	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	late := time.After(startTimeout)
	for {
		if e, ok := readEndpoints(filepath.Join(p.Home, "endpoints.json"), cmd.Process.Pid); ok {
			return e, nil
		}
		select {
		case <-poll.C:
		case <-proc.done:
			return nil, fmt.Errorf("it ended: %w\n%s", proc.err, b.Log(p))
		case <-late:
			return nil, errors.Join(fmt.Errorf("no endpoints after %v\n%s", startTimeout, b.Log(p)), b.Kill(p))
		}
	}
}

// readEndpoints reads the file if it is whole and by that process.
func readEndpoints(path string, pid int) (Endpoints, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var file struct {
		PID     int                          `json:"pid"`
		Fronts  map[string]map[string]string `json:"fronts"`
		Console map[string]string            `json:"console"`
	}
	if json.Unmarshal(data, &file) != nil || file.PID != pid {
		return nil, false
	}
	e := Endpoints(file.Fronts)
	if e != nil && file.Console != nil {
		e["console"] = file.Console
	}
	return e, e != nil
}

func (b *Binary) take(p Place) *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	proc := b.running[p.Home]
	delete(b.running, p.Home)
	return proc
}

// Stop sends SIGTERM and reports an exit that is not clean.
func (b *Binary) Stop(p Place) error {
	proc := b.take(p)
	if proc == nil {
		return nil
	}
	_ = proc.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-proc.done:
		return proc.err
	case <-time.After(stopTimeout):
		_ = proc.cmd.Process.Kill()
		<-proc.done
		return fmt.Errorf("it was still running %v after SIGTERM", stopTimeout)
	}
}

// Kill sends SIGKILL.
func (b *Binary) Kill(p Place) error {
	if proc := b.take(p); proc != nil {
		_ = proc.cmd.Process.Kill()
		<-proc.done
	}
	return nil
}

// Log returns the end of the log.
func (b *Binary) Log(p Place) string {
	data, _ := os.ReadFile(logFile(p))
	if len(data) > shownLog {
		data = data[len(data)-shownLog:]
	}
	return string(data)
}
