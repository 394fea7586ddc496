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

// agentResources are the resources of clients as agents have them: they read what
// a client has that is active in their session, and nothing of this machine.
type agentResources struct{ front *Front }

// ask has a client of the session answer for its resource.
func (a agentResources) ask(ctx context.Context, session id.ID, method, uri string, into any) error {
	at, err := a.front.locate("uri", uri)
	if err != nil {
		return hosttools.Refused(errorText(err))
	}
	if at.owner == nil {
		return hosttools.Refused("uri: no client has that: files of this machine are read with your own tools")
	}
	a.front.mu.Lock()
	member := at.owner.member[session]
	a.front.mu.Unlock()
	if !member {
		return hosttools.Refused("uri: the client that has it takes no part in this session")
	}
	answer, err := a.front.ask(ctx, a.front.log, method, at, map[string]json.RawMessage{"uri": encode(uri)})
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		return hosttools.Refused("the client refused: " + clip(refused.Message))
	}
	if err == nil && json.Unmarshal(answer, into) != nil {
		err = hosttools.Refused("the client gave an answer that nobody understands")
	}
	return err
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
