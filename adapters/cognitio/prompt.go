package cognitio

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// promptBody is what a client sends to say something. Tools, system and
// format are for servers that call a model themselves; the first two are
// taken and have no effect on an agent that brings its own.
type promptBody struct {
	MessageID string          `json:"messageID"`
	Model     *modelRef       `json:"model"`
	Agent     string          `json:"agent"`
	NoReply   bool            `json:"noReply"`
	Variant   string          `json:"variant"`
	Format    *promptFormat   `json:"format"`
	Tools     map[string]bool `json:"tools"`
	System    string          `json:"system"`
	Parts     []partInput     `json:"parts" jsonx:"required"`
}

type promptFormat struct {
	Type string `json:"type" jsonx:"required"`
}

// partInput is one part of a prompt; it is also how the part is kept.
type partInput struct {
	ID        string          `json:"id,omitempty"`
	Type      string          `json:"type" jsonx:"required"`
	Text      string          `json:"text,omitempty"`
	Synthetic bool            `json:"synthetic,omitempty"`
	Ignored   bool            `json:"ignored,omitempty"`
	MIME      string          `json:"mime,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	URL       string          `json:"url,omitempty"`
	Name      string          `json:"name,omitempty"`
	Source    json.RawMessage `json:"source,omitempty"`
	// Attachment is the number, from 1, of the attachment that has the
	// content of URL. Clients cannot set it.
	Attachment int `json:"attachment,omitempty"`
}

// prompt makes the core's prompt of a body.
func (c *call) prompt(p *place, body *promptBody) (host.Prompt, error) {
	out := host.Prompt{Chat: p.chat, By: c.by(), MessageAlias: body.MessageID}
	info := &p.State().Info
	switch {
	case body.NoReply:
		return out, notServed("noReply is not served here: an agent hears of a message when it is asked")
	case body.Format != nil && body.Format.Type != "text":
		return out, notServed("format.type %.40q is not served here", body.Format.Type)
	case body.MessageID != "" && !chosenID(prefixMessage, body.MessageID):
		return out, badPayload("messageID", "messageID: want msg_ and letters or digits, at most %d, got %.60q", maxID, body.MessageID)
	case len(body.Parts) == 0:
		return out, badPayload("parts", "parts: want at least one")
	case len(body.Parts) > maxParts:
		return out, badPayload("parts", "parts: at most %d", maxParts)
	}
	if body.MessageID != "" {
		out.Key = p.chat.String() + "/" + body.MessageID
	}
	if m := body.Model; m != nil {
		if m.ProviderID != info.Backend {
			return out, wrongProvider("model.providerID", m.ProviderID, info.Backend)
		}
		if model := chosenModel(m.ModelID); model != info.Settings.Model {
			out.Settings.Model = model
		}
	}
	out.Settings = c.f.applyAgent(info.Backend, body.Agent, out.Settings)
	if body.Agent == agentBuild && info.Settings.Mode == event.ModePlan {
		out.Settings.Mode = event.ModeAccept
	}
	if c.f.hasEffort(info.Backend, body.Variant) {
		out.Settings.Effort = body.Variant
	}
	var text []string
	for n := range body.Parts {
		part := &body.Parts[n]
		part.Attachment = 0
		if part.ID != "" && !chosenID(prefixPart, part.ID) {
			return out, badPayload("parts", "parts[%d].id: want prt_ and letters or digits, got %.60q", n, part.ID)
		}
		switch part.Type {
		case "text":
			if !part.Ignored {
				text = append(text, part.Text)
			}
		case "file":
			a, err := attachment(part, info.Dirs)
			if err != nil {
				return out, badPayload("parts", "parts[%d].url: %s", n, err.Error())
			}
			out.Attachments = append(out.Attachments, a)
			part.Attachment, part.URL = len(out.Attachments), ""
		case "agent": // its mention is in the text
		default:
			return out, badPayload("parts", `parts[%d].type: want "text", "file" or "agent", got %.40q`, n, part.Type)
		}
	}
	out.Text = strings.Join(text, "\n\n")
	var err error
	out.Rich, err = jsonx.Encode(sentParts{body.Parts})
	return out, err
}

var (
	errURL      = errors.New("want a data: or file: URL")
	errOutside  = errors.New("the file is outside the session's directories")
	errPeerGone = errors.New("the client is gone")
	errData     = errors.New("the data URL is malformed")
)

// attachment reads what a file part points to: bytes in a data URL, or a file
// of the working directories.
func attachment(p *partInput, dirs []string) (event.Attachment, error) {
	a := event.Attachment{Kind: event.AttachFile, Name: p.Filename, MIME: p.MIME}
	if strings.HasPrefix(p.MIME, "image/") {
		a.Kind = event.AttachImage
	}
	if rest, ok := strings.CutPrefix(p.URL, "data:"); ok {
		kind, data, ok := strings.Cut(rest, ",")
		if !ok {
			return a, errData
		}
		if a.MIME == "" {
			a.MIME, _, _ = strings.Cut(kind, ";")
		}
		var err error
		if strings.HasSuffix(kind, ";base64") {
			a.Data, err = base64.StdEncoding.DecodeString(data)
		} else {
			var s string
			s, err = url.PathUnescape(data)
			a.Data = []byte(s)
		}
		if err != nil {
			return a, errData
		}
		return a, nil
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return a, errURL
	}
	a.Path = filepath.Clean(u.Path)
	for _, d := range dirs {
		if rel, err := filepath.Rel(canonical(d), canonical(a.Path)); err == nil && filepath.IsLocal(rel) {
			return a, nil
		}
	}
	return a, errOutside
}

// promptAsync stores a prompt and answers at once.
func promptAsync(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	var body promptBody
	if err := c.body(&body); err != nil {
		return nil, err
	}
	in, err := c.prompt(p, &body)
	if err != nil {
		return nil, err
	}
	if _, err := p.Prompt(c.ctx(), in); err != nil {
		return nil, err
	}
	return noContent{}, nil
}

// promptAndWait answers with the last message of the turn, when it has ended.
func promptAndWait(f *server, w http.ResponseWriter, r *http.Request) {
	f.turnOver(w, r, func(c *call) (*place, host.Prompt, error) {
		p, err := c.session()
		if err != nil {
			return nil, host.Prompt{}, err
		}
		var body promptBody
		if err := c.body(&body); err != nil {
			return nil, host.Prompt{}, err
		}
		in, err := c.prompt(p, &body)
		return p, in, err
	}, nil)
}

// runCommand sends a command to the agent, which knows its own.
func runCommand(f *server, w http.ResponseWriter, r *http.Request) {
	var name, arguments string
	f.turnOver(w, r, func(c *call) (*place, host.Prompt, error) {
		p, err := c.session()
		if err != nil {
			return nil, host.Prompt{}, err
		}
		var body struct {
			MessageID string      `json:"messageID"`
			Agent     string      `json:"agent"`
			Command   string      `json:"command" jsonx:"required"`
			Arguments string      `json:"arguments"`
			Parts     []partInput `json:"parts"`
		}
		if err := c.body(&body); err != nil {
			return nil, host.Prompt{}, err
		}
		name, arguments = body.Command, body.Arguments
		in, err := c.command(p, body.Command, body.Arguments, &promptBody{MessageID: body.MessageID, Agent: body.Agent, Parts: body.Parts})
		return p, in, err
	}, func(p *place, message string) {
		st := p.State()
		f.send(f.originOf(&st.Info), "command.executed", commandEvent{name, f.viewOf(p.at()).session, arguments, message})
	})
}

type commandEvent struct {
	Name      string `json:"name"`
	SessionID string `json:"sessionID"`
	Arguments string `json:"arguments"`
	MessageID string `json:"messageID"`
}

// command makes the prompt that runs a command of the session's agent.
func (c *call) command(p *place, name, arguments string, body *promptBody) (host.Prompt, error) {
	if !c.f.hasCommand(p.State().Info.Backend, name) {
		return host.Prompt{}, badPayload("command", "command: the agent has no command %.60q", name)
	}
	text := strings.TrimSpace("/" + name + " " + arguments)
	body.Parts = append([]partInput{{Type: "text", Text: text}}, body.Parts...)
	return c.prompt(p, body)
}

// turnOver runs a prompt and answers when its turn is over. The headers go out
// once the prompt is stored and blanks now and then, so that the client's own
// timeouts do not end a long turn.
func (f *server) turnOver(w http.ResponseWriter, r *http.Request, make func(*call) (*place, host.Prompt, error), after func(*place, string)) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	c := &call{r: r, w: w, f: f}
	p, in, err := make(c)
	var done host.Prompted
	if err == nil {
		done, err = p.Prompt(c.ctx(), in)
	}
	if err != nil {
		takeBy(w, streamWrite)
		f.writeError(w, answerFor(err, f.log, "session.prompt"))
		return
	}
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	takeBy(w, streamWrite)
	w.WriteHeader(http.StatusOK)
	if rc.Flush() != nil {
		return
	}
	t, err := f.waitTurn(c, rc, p, done.Turn)
	if errors.Is(err, host.ErrNotFound) && p.State().Chat(p.chat) != nil {
		// The message waited and was dropped: no turn, but an answer.
		v := f.viewOf(p.at())
		s := &step{turn: done.Turn, start: time.Now().UnixMilli(), parent: in.MessageAlias}
		if s.parent == "" {
			s.parent = done.Message.Cognitio(prefixMessage)
		}
		s.id = derived(done.Turn, s.start, counterStep).Cognitio(prefixMessage)
		f.writeBody(w, messageWithParts{Info: v.assistant(s).last(s.start, event.TurnCancelled, nil, event.Usage{}), Parts: []any{}})
		return
	}
	if err != nil {
		// The status is out. Cutting the answer short is the one way left to
		// say that there is none.
		f.log.Info("prompt was not answered", "session", p.ID(), "err", err)
		panic(http.ErrAbortHandler)
	}
	messages := f.viewOf(p.at()).messages(t)
	if after != nil {
		after(p, messages[0].id)
	}
	f.writeBody(w, messages[len(messages)-1])
}

// writeBody ends an answer whose headers are out.
func (f *server) writeBody(w http.ResponseWriter, v any) {
	b, err := jsonx.Encode(v)
	if err != nil {
		f.log.Error("answer could not be encoded", "err", err)
		panic(http.ErrAbortHandler)
	}
	takeBy(w, requestTimeout)
	w.Write(b)
}

// waitTurn waits for a turn's end while it keeps the client's connection warm.
func (f *server) waitTurn(c *call, rc *http.ResponseController, p *place, turn id.ID) (*state.Turn, error) {
	type outcome struct {
		turn *state.Turn
		err  error
	}
	ctx, cancel := context.WithCancel(c.ctx())
	defer cancel()
	over := make(chan outcome, 1)
	go func() {
		t, err := p.WaitTurn(ctx, p.chat, turn)
		over <- outcome{t, err}
	}()
	tick := time.NewTicker(pacifyEvery)
	defer tick.Stop()
	for {
		select {
		case o := <-over:
			return o.turn, o.err
		case <-tick.C:
			takeBy(c.w, streamWrite)
			if _, err := c.w.Write([]byte(" ")); err != nil || rc.Flush() != nil {
				return nil, errPeerGone
			}
		}
	}
}
