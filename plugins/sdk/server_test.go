package sdk

import (
	"context"
	"io"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/wire"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// inert takes every command and does nothing.
type inert struct{}

func (inert) Prompt(context.Context, agent.Prompt) error      { return nil }
func (inert) Interrupt(context.Context) error                 { return nil }
func (inert) Answer(context.Context, agent.Answer) error      { return nil }
func (inert) Steer(context.Context, agent.Prompt) error       { return nil }
func (inert) Configure(context.Context, event.Settings) error { return nil }
func (inert) Recv(context.Context) ([]agent.Frame, error)     { return nil, io.EOF }
func (inert) Close() error                                    { return nil }

// quiet is a stream of which only the context is used.
type quiet struct {
	grpc.BidiStreamingServer[wire.Command, wire.Batch]
}

func (quiet) Context() context.Context { return context.Background() }

// Whatever comes instead of a command is refused with an error.
func FuzzCommand(f *testing.F) {
	for _, c := range []*wire.Command{
		{Command: &wire.Command_Prompt{Prompt: []byte(`{"turn":"t","text":"say hi"}`)}},
		{Command: &wire.Command_Steer{Steer: []byte(`{"message":"m"}`)}},
		{Command: &wire.Command_Answer{Answer: []byte(`{"request":"r","resolution":{"outcome":"allowed"}}`)}},
		{Command: &wire.Command_Configure{Configure: []byte(`{"mode":"auto"}`)}},
		{Command: &wire.Command_Interrupt{Interrupt: true}},
		{Command: &wire.Command_Open{Open: []byte(`{}`)}},
		{Command: &wire.Command_Prompt{Prompt: []byte(`[[[[`)}},
		{},
	} {
		b, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var cmd wire.Command
		if proto.Unmarshal(data, &cmd) != nil {
			return
		}
		d := &dialogue{conv: inert{}, stream: quiet{}}
		err := d.do(&cmd)
		switch cmd.GetCommand().(type) {
		case nil, *wire.Command_Open:
			if err == nil {
				t.Error("a command that is none was taken")
			}
		case *wire.Command_Interrupt:
			if err != nil {
				t.Error(err)
			}
		}
	})
}
