package ahp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// agentResources are the resources of clients as agents have them: they reach what
// a client has that is active in their session, and nothing of this machine.
type agentResources struct{ front *Front }

// owned finds what a client has that takes part in the session.
func (a agentResources) owned(session id.ID, field, uri string) (resource, error) {
	at, err := a.front.locate(field, uri)
	if err != nil {
		return at, hosttools.Refused(errorText(err))
	}
	if at.owner == nil {
		return at, hosttools.Refused(field + ": no client has that: files of this machine are for your own tools")
	}
	a.front.mu.Lock()
	member := at.owner.member[session]
	a.front.mu.Unlock()
	if !member {
		return at, hosttools.Refused(field + ": the client that has it takes no part in this session")
	}
	return at, nil
}

// ask has a client of the session answer for its resource.
func (a agentResources) ask(ctx context.Context, session id.ID, method, uri string, into any) error {
	at, err := a.owned(session, "uri", uri)
	if err != nil {
		return err
	}
	return a.request(ctx, method, at, map[string]json.RawMessage{"uri": encode(uri)}, into)
}

// request sends a client what an agent wants of it.
func (a agentResources) request(ctx context.Context, method string, at resource, params map[string]json.RawMessage, into any) error {
	answer, err := a.front.ask(ctx, a.front.log, method, at, params)
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		return hosttools.Refused("the client refused: " + clip(refused.Message))
	}
	if err == nil && json.Unmarshal(answer, into) != nil {
		err = hosttools.Refused("the client gave an answer that nobody understands")
	}
	return err
}

// Change is within one client: no other can carry it out.
func (a agentResources) Change(ctx context.Context, session id.ID, c hosttools.ResourceChange) error {
	at, err := a.owned(session, "uri", c.URI)
	if err != nil {
		return err
	}
	var method string
	params := map[string]json.RawMessage{"uri": encode(c.URI)}
	flag := func(name string, on bool) {
		if on {
			params[name] = encode(true)
		}
	}
	switch c.Operation {
	case "write":
		method = "resourceWrite"
		params["data"], params["encoding"] = encode(c.Text), encode(encodingText)
		flag("createOnly", c.Fresh)
	case "delete":
		method = "resourceDelete"
		flag("recursive", c.Whole)
	case "mkdir":
		method = "resourceMkdir"
	case "move", "copy":
		to, err := a.owned(session, "destination", c.To)
		if err != nil {
			return err
		}
		if to.owner != at.owner {
			return hosttools.Refused("destination: another client has that")
		}
		method = map[string]string{"move": "resourceMove", "copy": "resourceCopy"}[c.Operation]
		params = map[string]json.RawMessage{"source": encode(c.URI), "destination": encode(c.To)}
		flag("failIfExists", c.Fresh)
	}
	var nothing json.RawMessage
	return a.request(ctx, method, at, params, &nothing)
}

func (a agentResources) Read(ctx context.Context, session id.ID, uri string) ([]byte, error) {
	var r readResult
	if err := a.ask(ctx, session, "resourceRead", uri, &r); err != nil {
		return nil, err
	}
	if r.Encoding != encodingBase64 {
		return []byte(r.Data), nil
	}
	content, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		return nil, hosttools.Refused("the client gave a content that is no base64")
	}
	return content, nil
}

func (a agentResources) List(ctx context.Context, session id.ID, uri string) ([]hosttools.Listed, error) {
	var r struct {
		Entries []hosttools.Listed `json:"entries"`
	}
	err := a.ask(ctx, session, "resourceList", uri, &r)
	return r.Entries, err
}

func (a agentResources) Stat(ctx context.Context, session id.ID, uri string) (json.RawMessage, error) {
	var r json.RawMessage
	err := a.ask(ctx, session, "resourceResolve", uri, &r)
	return r, err
}
