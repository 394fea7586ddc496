package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// incoming is a message that a client sent.
type incoming struct {
	raw         json.RawMessage
	text        string
	attachments []event.Attachment
	chats       []attachedChat
	settings    event.Settings
}

// attachedChat is a chat that a message brings, up to a turn; "" is all of it.
type attachedChat struct{ label, uri, endTurn string }

// sentMessage is what of a client's message is read.
type sentMessage struct {
	Text   *string `json:"text" jsonx:"required"`
	Origin struct {
		Kind string `json:"kind" jsonx:"required"`
	} `json:"origin" jsonx:"required"`
	Attachments []struct {
		Type                string `json:"type" jsonx:"required"`
		Label               string `json:"label"`
		ModelRepresentation string `json:"modelRepresentation"`
		Data                []byte `json:"data"`
		ContentType         string `json:"contentType"`
		URI                 string `json:"uri"`
		Resource            string `json:"resource"`
		EndTurn             string `json:"endTurn"`
	} `json:"attachments"`
	Model *struct {
		ID     string                     `json:"id" jsonx:"required"`
		Config map[string]json.RawMessage `json:"config"`
	} `json:"model"`
}

// readMessage reads a client's message strictly.
func readMessage(raw json.RawMessage) (*incoming, error) {
	var m sentMessage
	if err := decode(raw, &m, "message"); err != nil {
		return nil, err
	}
	in := &incoming{raw: raw, text: *m.Text}
	if m.Model != nil {
		in.settings = messageSettings(&modelSelection{ID: m.Model.ID, Config: m.Model.Config})
	}
	for _, a := range m.Attachments {
		at := event.Attachment{Name: a.Label, MIME: a.ContentType}
		switch a.Type {
		case "simple":
			at.Kind, at.Text = event.AttachText, a.ModelRepresentation
			if at.Text == "" {
				continue // a mark in the text, for people
			}
		case "embeddedResource":
			at.Kind, at.Data = event.AttachFile, a.Data
			if strings.HasPrefix(a.ContentType, "image/") {
				at.Kind = event.AttachImage
			}
		case "resource":
			path, err := filePath(a.URI)
			if err != nil {
				return nil, refusal("an attachment is no file on this machine: " + clip(a.URI))
			}
			at.Kind, at.Path = event.AttachFile, path
		case "chat":
			in.chats = append(in.chats, attachedChat{a.Label, a.Resource, a.EndTurn})
			continue
		default:
			return nil, refusal("this host takes no attachments of type " + clip(a.Type))
		}
		in.attachments = append(in.attachments, at)
	}
	return in, nil
}

// commandPrefix begins a message that is a command for a shell.
const commandPrefix = "!"

// command is the command that a message is, or "".
func (in *incoming) command() string {
	line, ok := strings.CutPrefix(in.text, commandPrefix)
	if !ok {
		return ""
	}
	return strings.TrimSpace(line)
}

// prompt makes the core's prompt of a message.
func (in *incoming) prompt(chat id.ID, by event.Actor) host.Prompt {
	return host.Prompt{Chat: chat, Text: in.text, Command: in.command(), Attachments: in.attachments, By: by, Settings: in.settings, KeepEffort: true,
		MessageID: id.New(), Turn: id.New(), Rich: encode(richMessage{Message: in.raw})}
}

// attachChats adds what was said in the chats that a message brings, as it is
// now.
func (f *Front) attachChats(ctx context.Context, in *incoming) error {
	for _, a := range in.chats {
		at, err := f.find(ctx, a.uri)
		if err != nil || at.chat.IsNil() {
			return refusal("there is no such chat to attach: " + clip(a.uri))
		}
		s, err := f.host.Session(ctx, at.session)
		if err != nil {
			return err
		}
		text, err := transcript(ctx, s, at.chat, a.endTurn)
		if err != nil {
			return err
		}
		in.attachments = append(in.attachments, event.Attachment{Kind: event.AttachText, Name: a.label, Text: text})
	}
	return nil
}

// transcript is what was said in a chat up to a finished turn; "" is the newest.
func transcript(ctx context.Context, s *host.Session, chat id.ID, end string) (string, error) {
	before := -1
	if end != "" {
		t, err := findTurn(ctx, s, chat, end)
		if errors.Is(err, host.ErrNotFound) || err == nil && t.Status == event.TurnRunning {
			return "", refusal("the chat to attach has no such finished turn: " + clip(end))
		}
		if err != nil {
			return "", err
		}
		before = t.Number + 1
	}
	turns, err := s.Turns(ctx, chat, before, snapshotTurns)
	if err != nil {
		return "", err
	}
	var said []string
	size := 0
	for _, t := range slices.Backward(turns) {
		one := "Person: " + t.Message.Text + "\n"
		for _, p := range t.Parts {
			if p.Kind == event.PartText {
				one += "Agent: " + p.Text.String() + "\n"
			}
		}
		if size += len(one); size > maxChatText {
			break
		}
		said = append(said, one)
	}
	slices.Reverse(said)
	return strings.Join(said, ""), nil
}

// decode reads a part of an action strictly; the error is a refusal that names
// the field.
func decode(raw json.RawMessage, v any, what string) error {
	if len(raw) == 0 {
		return refusal(what + ": missing")
	}
	if err := jsonx.DecodeChecked(raw, v); err != nil {
		return refusal(what + "." + err.Error())
	}
	return nil
}

// isTimestamp reports whether s is an ISO 8601 moment.
func isTimestamp(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, s)
	return err == nil
}
