package ahp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// source is where a plugin is read: a file: URI is a folder of this host, behind
// the fence of all reads; anything else is the client's own.
func (s *plugins) source(cl *client, uri string) (addon.Source, error) {
	scheme, _, ok := splitURI(uri)
	switch {
	case !ok:
		return nil, refusal("the plugin's URI is no absolute one: " + clip(uri))
	case scheme == "file":
		dir, err := filePath(uri)
		if err != nil {
			return nil, refusal(errorText(err))
		}
		return addon.FromFiles(s.front.files, dir), nil
	case strings.HasPrefix(scheme, ahpPrefix):
		return nil, refusal("a plugin is no channel of this host: " + clip(uri))
	}
	return &ownedPlugin{s.front, cl, uri}, nil
}

// ownedPlugin is a plugin that its client reads for the host.
type ownedPlugin struct {
	front *Front
	owner *client
	uri   string
}

// at is the URI of something in the plugin.
func (o *ownedPlugin) at(path string) string {
	if path == "" {
		return o.uri
	}
	base, rest := o.uri, ""
	if i := strings.IndexAny(base, "?#"); i >= 0 {
		base, rest = base[:i], base[i:]
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.Join(parts, "/") + rest
}

var errBadOwner = errors.New("the client's answer makes no sense")

func (o *ownedPlugin) ask(ctx context.Context, method, path string, params map[string]any, answer any) error {
	line := o.front.line(o.owner)
	if line == nil {
		return errOwnerLeft
	}
	params["channel"], params["uri"] = rootURI, o.at(path)
	ctx, cancel := context.WithTimeout(ctx, ownerWithin)
	defer cancel()
	raw, err := line.peer.Call(ctx, method, params)
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: it did not come in time", errBadOwner)
	case errors.Is(err, jsonrpc.ErrTooManyCalls):
		return fmt.Errorf("%w: it is asked too much at once", errBadOwner)
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errOwnerLeft
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%w: %s of %.200s", errBadOwner, method, o.at(path))
	}
	return nil
}

func (o *ownedPlugin) List(ctx context.Context, path string) ([]addon.Entry, error) {
	var answer struct {
		Entries []directoryEntry `json:"entries"`
	}
	if err := o.ask(ctx, "resourceList", path, map[string]any{}, &answer); err != nil {
		return nil, err
	}
	out := make([]addon.Entry, len(answer.Entries))
	for i, e := range answer.Entries {
		out[i].Name = e.Name
		switch e.Type {
		case string(files.File):
			out[i].Kind = addon.File
		case string(files.Directory):
			out[i].Kind = addon.Folder
		}
	}
	return out, nil
}

func (o *ownedPlugin) Read(ctx context.Context, path string) ([]byte, error) {
	var answer struct {
		Data     string `json:"data"`
		Encoding string `json:"encoding"`
	}
	if err := o.ask(ctx, "resourceRead", path, map[string]any{"encoding": encodingBase64}, &answer); err != nil {
		return nil, err
	}
	if answer.Encoding != encodingBase64 {
		return []byte(answer.Data), nil
	}
	b, err := base64.StdEncoding.DecodeString(answer.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: resourceRead of %.200s is no base64", errBadOwner, o.at(path))
	}
	return b, nil
}
