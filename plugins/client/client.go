// Package client is the gateway's end of the plugin boundary: an
// agent.Backend whose agent runs behind a gRPC connection. It must not know
// where the connection comes from or what process is behind it.
//
// Ordering: commands reach the agent in the order they were given, on their
// own way: frames that nobody receives never hold them up. Bounds: frames wait
// in an outbox, and then in the connection's window, and then the agent waits.
// Loss: none until the connection is lost, which Recv reports as ErrLost.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrLost means that the plugin went away in the middle of a conversation.
var ErrLost = errors.New("the connection to the agent's plugin is lost")

// ErrNotClosed means that the plugin did not end a conversation that was closed.
var ErrNotClosed = errors.New("the agent did not close the conversation in time")

var errClosed = errors.New("the conversation is closed")

// DialOptions are what a connection to a plugin needs.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithInitialWindowSize(wire.Window),
		grpc.WithInitialConnWindowSize(wire.ConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
	}
}

// Backend is the agent behind one connection.
type Backend struct {
	rpc wire.AgentClient

	mu   sync.Mutex
	open map[*conversation]struct{}
}

// New returns the agent behind a connection made with DialOptions. The
// connection stays the caller's.
func New(conn grpc.ClientConnInterface) *Backend {
	return &Backend{rpc: wire.NewAgentClient(conn), open: map[*conversation]struct{}{}}
}

// Info asks the plugin what its agent is.
func (b *Backend) Info(ctx context.Context) (agent.Info, error) {
	reply, err := b.rpc.Info(ctx, &wire.InfoRequest{})
	if ctx.Err() != nil {
		return agent.Info{}, ctx.Err()
	}
	if err != nil {
		return agent.Info{}, fromStatus(err)
	}
	if v := reply.GetVersion(); v != wire.Version {
		return agent.Info{}, fmt.Errorf("the plugin speaks version %d of the protocol, the gateway version %d", v, wire.Version)
	}
	var info agent.Info
	if err := json.Unmarshal(reply.GetInfo(), &info); err != nil {
		return agent.Info{}, fmt.Errorf("decode the plugin's description: %w", err)
	}
	return info, nil
}

// Conversations lists the agent's past conversations; agent.ErrUnsupported if
// it keeps none.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	var page agent.ConversationPage
	err := ask(ctx, q, &page, func(query []byte) ([]byte, error) {
		reply, err := b.rpc.Conversations(ctx, &wire.ConversationsRequest{Query: query})
		return reply.GetPage(), err
	})
	return page, err
}

// History reads the turns of a past conversation; agent.ErrUnsupported if the
// agent keeps none.
func (b *Backend) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	var page agent.HistoryPage
	err := ask(ctx, q, &page, func(query []byte) ([]byte, error) {
		reply, err := b.rpc.History(ctx, &wire.HistoryRequest{Query: query})
		return reply.GetPage(), err
	})
	return page, err
}

// ask takes a query over the wire and reads the page that answers it.
func ask(ctx context.Context, query, page any, call func([]byte) ([]byte, error)) error {
	q, err := json.Marshal(query)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	answer, err := call(q)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fromStatus(err)
	}
	if err := json.Unmarshal(answer, page); err != nil {
		return fmt.Errorf("decode a page of the plugin: %w", err)
	}
	return nil
}

// Close is CloseWithin a bound for those who have none of their own.
func (b *Backend) Close() error { return b.CloseWithin(backendCloseBound) }

// CloseWithin ends all conversations and everything the plugin's agent runs; the
// plugin itself stays. It does not wait longer than d for the plugin to say so.
func (b *Backend) CloseWithin(d time.Duration) error {
	b.mu.Lock()
	for c := range b.open {
		c.end()
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if _, err := b.rpc.Close(ctx, &wire.CloseRequest{}); err != nil {
		return fmt.Errorf("close the agent: %w", fromStatus(err))
	}
	return nil
}

// Open begins a conversation on a stream of its own.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	open, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	// The stream outlives ctx, which bounds the opening alone.
	sctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	stream, opened, err := b.begin(sctx, open)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	c := &conversation{
		backend: b, stream: stream, opened: opened, cancel: cancel, out: outbox.New(),
		cmds: make(chan *wire.Command, maxCommands), closing: make(chan struct{}), done: make(chan struct{}),
	}
	b.mu.Lock()
	b.open[c] = struct{}{}
	b.mu.Unlock()
	c.wg.Go(c.write)
	c.wg.Go(c.read)
	return c, nil
}

func (b *Backend) begin(ctx context.Context, open []byte) (wire.Agent_ConverseClient, *wire.Opened, error) {
	stream, err := b.rpc.Converse(ctx)
	if err != nil {
		return nil, nil, fromStatus(err)
	}
	// A send that fails has its reason in Recv.
	_ = stream.Send(&wire.Command{Command: &wire.Command_Open{Open: open}})
	first, err := stream.Recv()
	if err != nil {
		return nil, nil, fromStatus(err)
	}
	if first.GetOpened() == nil {
		return nil, nil, errors.New("the plugin did not say that the conversation was opened")
	}
	return stream, first.GetOpened(), nil
}

type conversation struct {
	backend *Backend
	stream  wire.Agent_ConverseClient
	opened  *wire.Opened
	cancel  context.CancelFunc
	out     *outbox.Outbox
	cmds    chan *wire.Command
	wg      sync.WaitGroup

	closeOnce sync.Once
	closing   chan struct{} // Close was called
	done      chan struct{} // the plugin's half of the stream has ended
}

func (c *conversation) Prompt(ctx context.Context, p agent.Prompt) error {
	return c.command(ctx, p, func(b []byte) *wire.Command { return &wire.Command{Command: &wire.Command_Prompt{Prompt: b}} })
}

func (c *conversation) Answer(ctx context.Context, a agent.Answer) error {
	return c.command(ctx, a, func(b []byte) *wire.Command { return &wire.Command{Command: &wire.Command_Answer{Answer: b}} })
}

func (c *conversation) Steer(ctx context.Context, p agent.Prompt) error {
	if !c.opened.GetSteer() {
		return agent.ErrUnsupported
	}
	return c.command(ctx, p, func(b []byte) *wire.Command { return &wire.Command{Command: &wire.Command_Steer{Steer: b}} })
}

func (c *conversation) Configure(ctx context.Context, s event.Settings) error {
	if !c.opened.GetConfigure() {
		return agent.ErrUnsupported
	}
	return c.command(ctx, s, func(b []byte) *wire.Command { return &wire.Command{Command: &wire.Command_Configure{Configure: b}} })
}

func (c *conversation) SwitchServer(ctx context.Context, s agent.ServerSwitch) error {
	if !c.opened.GetSwitchServers() {
		return agent.ErrUnsupported
	}
	return c.command(ctx, s, func(b []byte) *wire.Command {
		return &wire.Command{Command: &wire.Command_SwitchServer{SwitchServer: b}}
	})
}

func (c *conversation) Interrupt(ctx context.Context) error {
	return c.give(ctx, &wire.Command{Command: &wire.Command_Interrupt{Interrupt: true}})
}

func (c *conversation) command(ctx context.Context, v any, wrap func([]byte) *wire.Command) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(b) > wire.MaxMessage/2 {
		return fmt.Errorf("a message to the agent of %d bytes is too large", len(b))
	}
	return c.give(ctx, wrap(b))
}

func (c *conversation) give(ctx context.Context, cmd *wire.Command) error {
	select {
	case <-c.closing:
		return errClosed
	case <-c.done:
		return ErrLost
	default:
	}
	select {
	case c.cmds <- cmd:
		return nil
	case <-c.closing:
		return errClosed
	case <-c.done:
		return ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write is the only sender on the stream.
func (c *conversation) write() {
	for {
		select {
		case cmd := <-c.cmds:
			if c.stream.Send(cmd) != nil {
				return // read learns why
			}
		case <-c.closing:
			_ = c.stream.CloseSend()
			return
		case <-c.done:
			return
		}
	}
}

// read takes frames off the stream. When nobody receives them it waits, and
// with it, in the end, the agent; after Close it only reads to the end.
func (c *conversation) read() {
	defer close(c.done)
	var frames []agent.Frame
	for {
		batch, err := c.stream.Recv()
		if err == nil {
			clear(frames)
			frames, err = wire.Decode(frames[:0], batch)
		}
		switch {
		case err == io.EOF:
			c.out.Close(io.EOF)
			return
		case err != nil:
			c.cancel()
			c.out.Close(fromStatus(err))
			return
		}
		if len(frames) > 0 {
			_ = c.out.Put(context.Background(), frames...)
		}
	}
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

// end begins the conversation's end: no frame is taken in any more, and the
// plugin is told.
func (c *conversation) end() {
	c.closeOnce.Do(func() {
		c.out.Close(io.EOF)
		close(c.closing)
	})
}

func (c *conversation) Close() error {
	c.end()
	c.backend.mu.Lock()
	delete(c.backend.open, c)
	c.backend.mu.Unlock()
	t := time.NewTimer(closeBound)
	defer t.Stop()
	var err error
	select {
	case <-c.done:
	case <-t.C:
		err = ErrNotClosed
	}
	c.cancel()
	c.wg.Wait()
	return err
}

// fromStatus turns gRPC's errors into ones that make sense without it. Whose
// own context ended has looked at that before.
func fromStatus(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	if p := wire.ProblemOf(s); p != nil {
		return p
	}
	switch s.Code() {
	case codes.Unavailable, codes.Canceled: // cancelled by the connection's end
		return ErrLost
	case codes.Unimplemented:
		return agent.ErrUnsupported
	}
	return errors.New(s.Message())
}
