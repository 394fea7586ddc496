package cognitio

import (
	"encoding/json"
	"slices"

	"github.com/polyhost/polyhost/transports/jsonx"
)

// The requests that drive a terminal client: they only become events. They go
// to the clients of the request's directory, or of all where it names none.

func (c *call) tell(kind string, properties any) (any, error) {
	from := everywhere
	if dir := c.directory(); dir != "" {
		from = newOrigin(dir, c.f.projects.of(dir).ID, []string{dir})
	}
	c.f.send(from, kind, properties)
	return true, nil
}

type textProperty struct {
	Text string `json:"text" jsonx:"required"`
}

type commandProperty struct {
	Command string `json:"command" jsonx:"required"`
}

type sessionProperty struct {
	SessionID string `json:"sessionID" jsonx:"required"`
}

type toast struct {
	Title     string   `json:"title,omitempty"`
	Message   string   `json:"message" jsonx:"required"`
	Variant   string   `json:"variant" jsonx:"required"`
	Duration  *float64 `json:"duration,omitempty"`
	SessionID string   `json:"sessionID,omitempty"`
}

func (t toast) check() error {
	if !slices.Contains([]string{"info", "success", "warning", "error"}, t.Variant) {
		return badPayload("variant", "variant: want info, success, warning or error, got %.40q", t.Variant)
	}
	return nil
}

func appendPrompt(c *call) (any, error) {
	var p textProperty
	if err := c.body(&p); err != nil {
		return nil, err
	}
	return c.tell("tui.prompt.append", p)
}

func executeCommand(c *call) (any, error) {
	var p commandProperty
	if err := c.body(&p); err != nil {
		return nil, err
	}
	return c.tell("tui.command.execute", p)
}

// uiCommand is a request that stands for one command.
func uiCommand(name string) func(*call) (any, error) {
	return func(c *call) (any, error) { return c.tell("tui.command.execute", commandProperty{name}) }
}

func showToast(c *call) (any, error) {
	var t toast
	if err := c.body(&t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return c.tell("tui.toast.show", t)
}

func selectSession(c *call) (any, error) {
	var p sessionProperty
	if err := c.body(&p); err != nil {
		return nil, err
	}
	if _, err := c.f.find(c.ctx(), p.SessionID); err != nil {
		return nil, err
	}
	return c.tell("tui.session.select", p)
}

// publishUI takes the four events of this kind as they are.
func publishUI(c *call) (any, error) {
	var body struct {
		Type       string          `json:"type" jsonx:"required"`
		Properties json.RawMessage `json:"properties" jsonx:"required"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	var props any
	switch body.Type {
	case "tui.prompt.append":
		props = &textProperty{}
	case "tui.command.execute":
		props = &commandProperty{}
	case "tui.toast.show":
		props = &toast{}
	case "tui.session.select":
		props = &sessionProperty{}
	default:
		return nil, badPayload("type", "type: %.60q cannot be published", body.Type)
	}
	if err := jsonx.DecodeChecked(body.Properties, props); err != nil {
		return nil, err
	}
	if t, ok := props.(*toast); ok {
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	return c.tell(body.Type, props)
}
