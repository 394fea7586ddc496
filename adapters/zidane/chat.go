package zidane

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

type sendParams struct {
	ref
	Prompt      string             `json:"prompt" jsonx:"required"`
	Attachments []attachmentParams `json:"attachments"`
	ModelID     string             `json:"modelId"`
	AgentID     string             `json:"agentId"`
}

type attachmentParams struct {
	Name string `json:"name"`
	MIME string `json:"mime"`
	Data string `json:"data"` // base64
	Path string `json:"path"` // inside the workspace roots
}

type runResult struct {
	RunID string `json:"runId"`
}

// chatSend answers once the run starts. While another one goes, the prompt
// waits in the queue and the answer with it.
func chatSend(ctx context.Context, c *call, p sendParams) (any, error) {
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Prompt) == "" && len(p.Attachments) == 0 {
		return nil, badField("prompt", "it is empty")
	}
	st := s.State()
	prompt := host.Prompt{Chat: chat, Text: p.Prompt, By: c.conn.by}
	if prompt.Attachments, err = c.attachments(st.Info.Dirs, p.Attachments); err != nil {
		return nil, err
	}
	if p.AgentID != "" || p.ModelID != "" {
		own, err := c.changed(event.Settings{}, st.Info.Backend, given(p.AgentID), given(p.ModelID))
		if err != nil {
			return nil, err
		}
		prompt.Settings = *own
	}
	return c.run(ctx, s, prompt)
}

func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// run hands a prompt over and waits for its run to start.
func (c *call) run(ctx context.Context, s *host.Session, p host.Prompt) (any, error) {
	done, err := s.Prompt(ctx, p)
	c.submitted()
	if err != nil {
		return nil, err
	}
	if !done.Started {
		if err := started(ctx, s, done); err != nil {
			return nil, err
		}
	}
	return runResult{done.Turn.String()}, nil
}

// started waits until a queued prompt leaves the queue.
func started(ctx context.Context, s *host.Session, p host.Prompted) error {
	sub := s.Subscribe(p.Seq)
	defer sub.Close()
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			return failed("The session ended before the run started.")
		}
		for _, e := range events {
			switch b := e.Body.(type) {
			case *event.TurnStarted:
				if e.Turn == p.Turn {
					return nil
				}
			case *event.MessageRemoved:
				if b.ID == p.Message && (b.Why == event.RemovedDropped || b.Why == event.RemovedByUser) {
					return failed("The prompt was taken out of the queue before its run started.")
				}
			}
		}
	}
}

// attachments turns what a client adds to a prompt into the core's form.
func (f *Front) attachments(dirs []string, in []attachmentParams) ([]event.Attachment, error) {
	var out []event.Attachment
	for i, a := range in {
		field := indexed("attachments", i)
		if (a.Data == "") == (a.Path == "") {
			return nil, badField(field, "want one of data and path")
		}
		if len(a.Name) > maxText || len(a.MIME) > maxText {
			return nil, badField(field, "name or mime longer than %d bytes", maxText)
		}
		o := event.Attachment{Kind: event.AttachFile, Name: a.Name, MIME: a.MIME}
		if strings.HasPrefix(a.MIME, "image/") {
			o.Kind = event.AttachImage
		}
		if a.Path != "" {
			path, err := f.fileIn(dirs, a.Path)
			if err != nil {
				return nil, err
			}
			o.Path = path
		} else {
			data, err := base64.StdEncoding.DecodeString(a.Data)
			if err != nil {
				return nil, badField(field+".data", "not base64")
			}
			o.Data = data
		}
		out = append(out, o)
	}
	return out, nil
}

type stopParams struct {
	ref
	RunID string `json:"runId"`
}

type stopResult struct {
	Stopped bool `json:"stopped"`
}

// chatStop ends the running run, or the named one if it is still running, and
// empties the queue.
func chatStop(ctx context.Context, c *call, p stopParams) (any, error) {
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	in := host.Interrupt{Chat: chat, By: c.conn.by}
	if p.RunID != "" {
		if in.Turn, err = id.Parse(p.RunID); err != nil {
			return stopResult{false}, nil
		}
	}
	stopped, err := s.Interrupt(ctx, in)
	return stopResult{stopped}, err
}

// chatSteer gives a text to the running run. Without one, or with an agent
// that takes none, it is not accepted and nothing happens.
func chatSteer(ctx context.Context, c *call, p struct {
	ref
	Text string `json:"text" jsonx:"required"`
}) (any, error) {
	type result struct {
		Accepted bool `json:"accepted"`
	}
	s, chat, err := c.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Text) == "" {
		return nil, badField("text", "it is empty")
	}
	st := s.State()
	ch := st.Chat(chat)
	if ch == nil || ch.Active == nil || !c.canSteer(st.Info.Backend) {
		return result{false}, nil
	}
	done, err := s.Prompt(ctx, host.Prompt{Chat: chat, Text: p.Text, By: c.conn.by, Busy: host.BusySteer})
	if errors.Is(err, host.ErrUnsupported) {
		return result{false}, nil
	}
	return result{err == nil && (done.Steering || done.Queued || done.Started)}, err
}
