package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/plugins/client"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// process is one run of a plugin.
type process struct {
	name    string
	logger  *slog.Logger
	group   *procgroup.Group
	link    *plugin.Client
	conn    *grpc.ClientConn
	backend *client.Backend
	alive   *os.File // the plugin reads the other end to notice our death
	started time.Time
	log     *logFile
	over    chan struct{} // it is dead, cleared away and forgotten
}

// launch starts the plugin and shakes hands with it.
func launch(o Options) (*process, error) {
	if o.SHA256 != "" {
		if err := discover.Verify(o.Path, o.SHA256); err != nil {
			return nil, err
		}
	}
	log, err := openLog(o.Instance.logPath(o.Name))
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer theirs.Close()
	var run *pluginRunner
	link := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		Plugins:          plugin.PluginSet{wire.PluginName: &plugin.NetRPCUnsupportedPlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     startBound,
		GRPCDialOptions:  client.DialOptions(),
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       log,
		SyncStderr:       log,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: o.Instance.socketDir()},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			run = &pluginRunner{cmd: command(o, spec.Env, theirs), log: log}
			return run, nil
		},
	})
	protocol, err := link.Client()
	if err != nil {
		err = firstLine(err)
		if run != nil && run.group != nil {
			err = run.stillborn(err)
		}
		link.Kill()
		ours.Close()
		log.Close()
		return nil, err
	}
	conn := protocol.(*plugin.GRPCClient).Conn
	return &process{name: o.Name, logger: o.Logger, group: run.group, link: link, conn: conn, backend: client.New(conn), alive: ours,
		started: time.Now(), log: log, over: make(chan struct{})}, nil
}

// firstLine drops the advice that go-plugin adds for its own users.
func firstLine(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

func command(o Options, handshake []string, parent *os.File) *exec.Cmd {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Dir = "/"
	cmd.Env = environment(os.Environ(), o.PassEnv)
	cmd.Env = append(cmd.Env, o.Env...)
	cmd.Env = append(cmd.Env, handshake...)
	cmd.Env = append(cmd.Env, InstanceVar+"="+o.Instance.ID, wire.ParentVar+"=3")
	cmd.ExtraFiles = []*os.File{parent} // becomes 3
	return cmd
}

// watch waits for the process's death, sees to its health meanwhile, and
// clears away what it leaves. It returns how long the process lived.
func (p *process) watch(o Options) time.Duration {
	tick := time.NewTicker(o.healthEvery)
	defer tick.Stop()
	for misses := 0; !p.dead(); {
		select {
		case <-p.group.Done():
		case <-tick.C:
			err := p.healthy(o.healthBound)
			if err == nil {
				misses = 0
			} else if misses++; misses == healthMisses && !p.dead() {
				p.kill(err)
			}
		}
	}
	life := time.Since(p.started)
	// Its agents' tools are in groups of their own, below its mark.
	if n, err := procgroup.KillMarked(procgroup.MarkVar, p.group.Mark()); n > 0 || err != nil {
		o.Logger.Warn("the plugin left processes behind, which were killed", "processes", n, "error", err)
	}
	p.link.Kill()
	p.alive.Close()
	p.log.Close()
	return life
}

func (p *process) dead() bool {
	select {
	case <-p.group.Done():
		return true
	default:
		return false
	}
}

func (p *process) healthy(bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	return err
}

// doubt asks a plugin that left something unanswered whether it is well, and
// kills it if it does not say so.
func (p *process) doubt() {
	if err := p.healthy(doubtBound); err != nil && !p.dead() {
		p.kill(err)
	}
}

// kill ends a plugin that hangs, and with it the conversations of others.
func (p *process) kill(why error) {
	p.logger.Error("the plugin does not answer and is killed", "pid", p.group.PID(), "error", why)
	if err := p.group.Stop(0); err != nil {
		p.logger.Error("the plugin could not be killed", "pid", p.group.PID(), "error", err)
	}
}

// stop ends the process in steps: it is asked, then told, then killed.
func (p *process) stop() error {
	asked := time.Now()
	_ = p.backend.CloseWithin(askBound)
	p.alive.Close()
	if !p.await(askBound - time.Since(asked)) {
		if err := p.group.Stop(termGrace); err != nil {
			return err
		}
		<-p.over
	}
	return nil
}

// await reports whether the process is over within d.
func (p *process) await(d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-p.over:
		return true
	case <-t.C:
		return false
	}
}

// explain adds to a lost connection how the process died.
func (p *process) explain(err error) error {
	if !errors.Is(err, client.ErrLost) {
		return err
	}
	if !p.await(obituaryBound) {
		return fmt.Errorf("plugin %s: %w", p.name, err)
	}
	return fmt.Errorf("plugin %s died (%s): %w", p.name, p.obituary(), err)
}

// obituary is the exit status in words; valid once the process is over.
func (p *process) obituary() string {
	if err := p.group.Err(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
