package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// connected finds the client of that id, if it is connected.
func (f *Front) connected(clientID string) *client {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clients[clientID]; c != nil && c.conns > 0 {
		return c
	}
	return nil
}

// line is the newest connection of a client, or nil.
func (f *Front) line(cl *client) *conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	var newest *conn
	for c := range f.conns {
		if c.who() == cl && (newest == nil || c.number > newest.number) {
			newest = c
		}
	}
	return newest
}

// askOwner passes a request on to the client that has the resource. Its answer
// is the answer, word for word, and so is its refusal.
func (c *conn) askOwner(ctx context.Context, r *jsonrpc.Request, at resource) (json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	if err := r.Decode(&params); err != nil {
		return nil, err
	}
	return c.front.ask(ctx, c.log, r.Method, at, params)
}

// ask asks the client that has a resource.
func (f *Front) ask(ctx context.Context, log *slog.Logger, method string, at resource, params map[string]json.RawMessage) (json.RawMessage, error) {
	params["channel"] = json.RawMessage(`"` + rootURI + `"`) // a request to this host may leave it out
	owner := f.line(at.owner)
	if owner == nil {
		return nil, nothingAt(at.uri)
	}
	ctx, cancel := context.WithTimeout(ctx, ownerWithin)
	defer cancel()
	answer, err := owner.peer.Call(ctx, method, params)
	var refused *jsonrpc.Error
	switch {
	case err == nil:
		return answer, nil
	case errors.As(err, &refused):
		log.Info("A client refused a request for its resource", "method", method, "uri", clip(at.uri), "client", at.owner.id, "code", refused.Code)
		return nil, refused
	case errors.Is(err, jsonrpc.ErrTooManyCalls):
		err = jsonrpc.Errorf(jsonrpc.CodeServerBusy, "the client that has %.200s is asked too much at once", at.uri)
	case errors.Is(err, context.DeadlineExceeded):
		err = jsonrpc.Errorf(jsonrpc.CodeInternalError, "the client that has %.200s did not answer in time", at.uri)
	default:
		err = jsonrpc.Errorf(codeNotFound, "the client that has %.200s left", at.uri)
	}
	log.Warn("A client did not answer a request for its resource", "method", method, "uri", clip(at.uri), "client", at.owner.id, "err", err)
	return nil, err
}

// lane is the queue of a request: messages of a connection are handled one
// after another, but what is asked about resources goes beside them, as another
// client may take its time to answer, and a disk too; and so do operations.
func (c *conn) lane(r *jsonrpc.Request) string {
	const all = "all"
	if c.who() != nil && r.Method == "invokeChangesetOperation" {
		return "operations" // hooks and the forge take their time
	}
	if aside[r.Method] && c.who() != nil {
		return "window"
	}
	if containersAside[r.Method] && c.who() != nil {
		var p struct {
			Connection string `json:"connectionId"`
		}
		_ = r.Decode(&p) // it will be refused
		return r.Method + " " + clip(p.Connection)
	}
	if c.who() == nil || !strings.HasPrefix(r.Method, "resource") && r.Method != "createResourceWatch" {
		return all
	}
	var p struct {
		URI    string `json:"uri"`
		Source string `json:"source"`
	}
	if r.Decode(&p) != nil {
		return all // it will be refused
	}
	_, authority, ok := splitURI(p.URI + p.Source)
	if !ok || c.front.connected(authority) == nil {
		return "resources"
	}
	return "resources of " + authority
}
