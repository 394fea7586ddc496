// Package sdk is for authors of agent plugins: implement agent.Backend, call
// Serve from main, and the gateway drives the agent like a built-in one.
//
// Serve also sees to the plugin's end. When the gateway asks, or is gone, or
// the process gets a TERM signal, the backend is closed, what its agents left
// running is killed, and Serve returns.
package sdk

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/plugins/wire"
	"google.golang.org/grpc"
)

// Serve serves the backend to the gateway that started this process and
// returns when it is over. Standard output belongs to the handshake: write to
// standard error, which the gateway keeps in the plugin's log. Without a
// gateway Serve says so and exits with status 1.
//
// The process runs on one processor unless GOMAXPROCS says otherwise: what a
// plugin does is hand lines on, and waking a second thread for each of them
// costs more than it saves.
func Serve(b agent.Backend) error {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	s := newServer(b)
	p := &process{stopped: make(chan struct{})}
	watch, err := parentPipe()
	if err != nil {
		return err
	}
	if watch != nil {
		go func() {
			_, _ = watch.Read(make([]byte, 1)) // ends when the gateway is gone
			p.stop()
		}()
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		p.stop()
	}()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		Plugins:         plugin.PluginSet{wire.PluginName: &served{server: s}},
		Logger:          hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Warn, Output: os.Stderr}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return p.hold(grpc.NewServer(append(opts, ServerOptions()...)...))
		},
	})
	return end(b, s)
}

// ServerOptions are what a gRPC server of an agent needs.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.InitialWindowSize(wire.Window), grpc.InitialConnWindowSize(wire.ConnWindow),
	}
}

// parentPipe is the descriptor that ends with the gateway; nil if there is
// none. The agent's own children must not get it.
func parentPipe() (*os.File, error) {
	v := os.Getenv(wire.ParentVar)
	if v == "" {
		return nil, nil
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, errors.New(wire.ParentVar + " is no file descriptor")
	}
	syscall.CloseOnExec(fd)
	_ = os.Unsetenv(wire.ParentVar)
	return os.NewFile(uintptr(fd), "gateway"), nil
}

// process ends the gRPC server, even one that does not exist yet.
type process struct {
	once    sync.Once
	stopped chan struct{}
}

func (p *process) stop() { p.once.Do(func() { close(p.stopped) }) }

func (p *process) hold(s *grpc.Server) *grpc.Server {
	go func() {
		<-p.stopped
		s.Stop()
	}()
	return s
}

// end closes the backend within a bound and kills what is left of it.
func end(b agent.Backend, s *server) error {
	closed := make(chan error, 1)
	go func() {
		err := b.Close()
		s.streams.Wait()
		closed <- err
	}()
	var err error
	t := time.NewTimer(closeBound)
	defer t.Stop()
	select {
	case err = <-closed:
	case <-t.C:
		err = errors.New("the agent did not close in time")
	}
	if mark := os.Getenv(procgroup.MarkVar); mark != "" {
		_, killErr := procgroup.KillMarked(procgroup.MarkVar, mark)
		err = errors.Join(err, killErr)
	}
	return err
}

// served is go-plugin's view of the server; the gateway's side has its own.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	server *server
}

func (p *served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	wire.RegisterAgentServer(s, p.server)
	return nil
}

func (p *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}
