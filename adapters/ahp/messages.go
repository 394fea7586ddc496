package ahp

import (
	"encoding/json"
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
	settings    event.Settings
}

// readMessage reads a client's message strictly.
func readMessage(raw json.RawMessage) (*incoming, error) {
	var m struct {
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
		} `json:"attachments"`
		Model *struct {
			ID     string                     `json:"id" jsonx:"required"`
			Config map[string]json.RawMessage `json:"config"`
		} `json:"model"`
	}
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
	return host.Prompt{Chat: chat, Text: in.text, Command: in.command(), Attachments: in.attachments, By: by, Settings: in.settings,
		MessageID: id.New(), Turn: id.New(), Rich: encode(richMessage{Message: in.raw})}
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
