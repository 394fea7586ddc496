// Package wire is what gateway and plugin say to each other: the handshake, the
// gRPC service and the encoding of frames. Both sides use it; it must know
// neither processes nor any agent.
//
// Ordering: frames keep their order within a conversation. Loss: none, but a
// frame above 8 MiB is cut down, and says so. Text that is no UTF-8 is made so.
package wire

//go:generate ./generate.sh

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/go-plugin"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// PluginName is the one thing that a plugin process serves.
const PluginName = "agent"

// ParentVar names the environment variable with the number of a file
// descriptor that the gateway never writes to: reading it ends when the
// gateway is gone.
const ParentVar = "POLYHOST_PARENT_FD"

// Handshake is checked before anything is said. The cookie tells a plugin that
// it was started by a gateway and not by hand; it is no secret.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  Version,
	MagicCookieKey:   "POLYHOST_PLUGIN",
	MagicCookieValue: "agent",
}

// Batches encodes frames and gives them to send in pieces of bounded size.
func Batches(frames []agent.Frame, send func(*Batch) error) error {
	b := &Batch{}
	n := 0
	for i := range frames {
		f, err := encode(&frames[i])
		if err != nil {
			return err
		}
		b.Frames = append(b.Frames, f)
		if n += len(f.Text) + len(f.Rest); n >= maxBatch {
			if err := send(b); err != nil {
				return err
			}
			b, n = &Batch{}, 0
		}
	}
	if len(b.Frames) == 0 {
		return nil
	}
	return send(b)
}

func encode(f *agent.Frame) (*Frame, error) {
	out := &Frame{
		Kind: valid(string(f.Kind)), Text: valid(f.Text), Part: valid(f.Part), Call: valid(f.Call), Child: valid(f.Child),
		Turn: valid(f.Turn), Request: valid(f.Request), Message: valid(f.Message), Name: valid(f.Name), Stderr: f.Stderr,
	}
	if rare(f) {
		rest, err := json.Marshal(restOf(f))
		if err != nil {
			return nil, fmt.Errorf("encode a %s frame: %w", f.Kind, err)
		}
		out.Rest = rest
	}
	if len(out.Text)+len(out.Rest) <= maxFrame {
		return out, nil
	}
	return cut(f)
}

// cut makes a frame that is too large one that fits.
func cut(f *agent.Frame) (*Frame, error) {
	if len(f.Text) > maxFrame/2 {
		small := *f
		small.Text = f.Text[:maxFrame/4] + "\n[the rest was too large]\n"
		return encode(&small)
	}
	small := agent.Frame{Kind: f.Kind, Text: f.Text, Part: f.Part, Call: f.Call, Child: f.Child, Turn: f.Turn,
		Request: f.Request, Message: f.Message, Name: f.Name, Status: f.Status, Point: f.Point}
	switch {
	case f.Kind == agent.ToolEnd && f.Result != nil:
		// What was streamed stays; the edits can be seen in the files.
		small.Result = &agent.Result{Failed: f.Result.Failed, Denied: f.Result.Denied, ExitCode: f.Result.ExitCode,
			Error: cmp.Or(head(f.Result.Error), "the result was too large for the gateway")}
	case f.Tool != nil && len(f.Tool.Input) <= maxFrame/2:
		tool := *f.Tool
		tool.Edits = nil
		tool.Paths = tool.Paths[:min(len(tool.Paths), 1000)]
		small.Tool = &tool
	default:
		small = agent.Frame{Kind: agent.Notice, Child: f.Child, Notice: &event.Notice{Level: "warning", Code: "truncated",
			Text: fmt.Sprintf("The agent sent a %s that was too large.", f.Kind)}}
	}
	if rest, err := json.Marshal(restOf(&small)); err != nil || len(rest) > maxFrame {
		return nil, fmt.Errorf("a %s frame is larger than %d bytes", f.Kind, maxFrame)
	}
	return encode(&small)
}

// head is the first piece of a text for people.
func head(s string) string { return strings.ToValidUTF8(s[:min(len(s), 1000)], "") }

// valid keeps protobuf from refusing a message for one byte of an agent's
// output.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func rare(f *agent.Frame) bool {
	return f.Tool != nil || f.Result != nil || f.Questions != nil || f.Plan != nil || f.Usage != nil || f.Context != nil ||
		f.Notice != nil || f.Image != nil || f.Offer != nil || f.Servers != nil || f.Work != nil || f.Status != "" || f.Error != nil || f.Point != ""
}

// restOf is the frame without the fields that the message has itself.
func restOf(f *agent.Frame) agent.Frame {
	r := *f
	r.Kind, r.Text, r.Part, r.Call, r.Child = "", "", "", "", ""
	r.Turn, r.Request, r.Message, r.Name, r.Stderr = "", "", "", "", false
	return r
}

// Decode appends the frames of a batch to dst.
func Decode(dst []agent.Frame, b *Batch) ([]agent.Frame, error) {
	for _, f := range b.GetFrames() {
		var out agent.Frame
		if len(f.Rest) > 0 {
			if err := json.Unmarshal(f.Rest, &out); err != nil {
				return dst, fmt.Errorf("decode a %s frame: %w", f.Kind, err)
			}
		}
		out.Kind, out.Text, out.Part, out.Call, out.Child = agent.FrameKind(f.Kind), f.Text, f.Part, f.Call, f.Child
		out.Turn, out.Request, out.Message, out.Name, out.Stderr = f.Turn, f.Request, f.Message, f.Name, f.Stderr
		dst = append(dst, out)
	}
	return dst, nil
}
