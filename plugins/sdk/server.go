package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server puts a backend on the wire.
type server struct {
	wire.UnimplementedAgentServer
	backend agent.Backend
	streams sync.WaitGroup // readers of commands
}

func newServer(b agent.Backend) *server { return &server{backend: b} }

// Register adds a backend to a gRPC server made with ServerOptions. Serve does
// so by itself; it is for hosts that bring their own connection.
func Register(s grpc.ServiceRegistrar, b agent.Backend) { wire.RegisterAgentServer(s, newServer(b)) }

func (s *server) Info(ctx context.Context, _ *wire.InfoRequest) (*wire.InfoReply, error) {
	info, err := s.backend.Info(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	b, err := json.Marshal(info)
	if err != nil {
		return nil, toStatus(err)
	}
	return &wire.InfoReply{Version: wire.Version, Info: b}, nil
}

func (s *server) Conversations(ctx context.Context, in *wire.ConversationsRequest) (*wire.ConversationsReply, error) {
	catalogue, ok := s.backend.(agent.Cataloger)
	if !ok {
		return nil, toStatus(agent.ErrUnsupported)
	}
	var q agent.ConversationQuery
	if err := decode(in.GetQuery(), &q); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	page, err := catalogue.Conversations(ctx, q)
	if err != nil {
		return nil, toStatus(err)
	}
	b, err := json.Marshal(page)
	if err != nil {
		return nil, toStatus(err)
	}
	return &wire.ConversationsReply{Page: b}, nil
}

func (s *server) History(ctx context.Context, in *wire.HistoryRequest) (*wire.HistoryReply, error) {
	catalogue, ok := s.backend.(agent.Cataloger)
	if !ok {
		return nil, toStatus(agent.ErrUnsupported)
	}
	var q agent.HistoryQuery
	if err := decode(in.GetQuery(), &q); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	page, err := catalogue.History(ctx, q)
	if err != nil {
		return nil, toStatus(err)
	}
	b, err := wire.EncodeHistory(page)
	if err != nil {
		return nil, toStatus(err)
	}
	return &wire.HistoryReply{Page: b}, nil
}

func (s *server) Close(context.Context, *wire.CloseRequest) (*wire.CloseReply, error) {
	if err := s.backend.Close(); err != nil {
		return nil, toStatus(err)
	}
	return &wire.CloseReply{}, nil
}

// Converse sends frames, while a goroutine beside it takes commands: neither
// waits for the other.
func (s *server) Converse(stream wire.Agent_ConverseServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var o agent.Open
	if err := decode(first.GetOpen(), &o); err != nil {
		return status.Error(codes.InvalidArgument, "the first command must open the conversation: "+err.Error())
	}
	conv, err := s.backend.Open(stream.Context(), o)
	if err != nil {
		return toStatus(err)
	}
	defer conv.Close()
	c := &dialogue{conv: conv, stream: stream, session: o.Session}
	_, steer := conv.(agent.Steerer)
	_, configure := conv.(agent.Configurer)
	_, switches := conv.(agent.ServerSwitcher)
	if err := stream.Send(&wire.Batch{Opened: &wire.Opened{Steer: steer, Configure: configure, SwitchServers: switches}}); err != nil {
		return err
	}
	defer c.finish()
	s.streams.Go(c.commands)
	for {
		frames, err := conv.Recv(stream.Context())
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return toStatus(err)
		}
		if err := c.send(frames); err != nil {
			return err
		}
	}
}

// dialogue is one conversation on its stream.
type dialogue struct {
	conv    agent.Conversation
	stream  wire.Agent_ConverseServer
	session string
	refused sync.WaitGroup

	sending sync.Mutex
	over    bool // the stream must not be sent on any more
}

func (c *dialogue) send(frames []agent.Frame) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return io.EOF
	}
	return wire.Batches(frames, c.stream.Send)
}

func (c *dialogue) finish() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.over = true
}

// commands ends when the gateway ends the stream or its half of it, and then
// closes the conversation.
func (c *dialogue) commands() {
	defer c.refused.Wait()
	defer c.conv.Close()
	for {
		cmd, err := c.stream.Recv()
		if err != nil {
			return
		}
		if err := c.do(cmd); err != nil {
			slog.Warn("the agent refused a command", "session", c.session, "command", fmt.Sprintf("%T", cmd.GetCommand()), "error", err)
		}
	}
}

func (c *dialogue) do(cmd *wire.Command) error {
	ctx := c.stream.Context()
	switch v := cmd.GetCommand().(type) {
	case *wire.Command_Prompt:
		var p agent.Prompt
		if err := decode(v.Prompt, &p); err != nil {
			return err
		}
		err := c.conv.Prompt(ctx, p)
		if err != nil {
			c.refuse(agent.Frame{Kind: agent.TurnEnd, Turn: p.Turn, Status: event.TurnFailed,
				Error: &event.Error{Code: event.CodeAgentFailed, Message: err.Error()}})
		}
		return err
	case *wire.Command_Steer:
		var p agent.Prompt
		if err := decode(v.Steer, &p); err != nil {
			return err
		}
		s, ok := c.conv.(agent.Steerer)
		if !ok {
			return agent.ErrUnsupported
		}
		err := s.Steer(ctx, p)
		if err != nil {
			c.refuse(agent.Frame{Kind: agent.Unsteered, Message: p.Message})
		}
		return err
	case *wire.Command_Answer:
		var a agent.Answer
		if err := decode(v.Answer, &a); err != nil {
			return err
		}
		return c.conv.Answer(ctx, a)
	case *wire.Command_Configure:
		var s event.Settings
		if err := decode(v.Configure, &s); err != nil {
			return err
		}
		if conf, ok := c.conv.(agent.Configurer); ok {
			return conf.Configure(ctx, s)
		}
		return agent.ErrUnsupported
	case *wire.Command_SwitchServer:
		var s agent.ServerSwitch
		if err := decode(v.SwitchServer, &s); err != nil {
			return err
		}
		if sw, ok := c.conv.(agent.ServerSwitcher); ok {
			return sw.SwitchServer(ctx, s)
		}
		return agent.ErrUnsupported
	case *wire.Command_Interrupt:
		return c.conv.Interrupt(ctx)
	}
	return errors.New("unknown command")
}

// refuse tells the gateway of a command that failed, in the frame that stands
// for it, without holding up the commands behind it.
func (c *dialogue) refuse(f agent.Frame) {
	c.refused.Go(func() { _ = c.send([]agent.Frame{f}) })
}

func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode what the gateway asks: %w", err)
	}
	return nil
}

func toStatus(err error) error {
	var problem *agent.Problem
	if errors.As(err, &problem) {
		return wire.ProblemStatus(problem)
	}
	if errors.Is(err, agent.ErrUnsupported) {
		return status.Error(codes.Unimplemented, err.Error())
	}
	return status.Error(codes.Unknown, err.Error())
}
