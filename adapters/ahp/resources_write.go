package ahp

import (
	"context"
	"encoding/base64"

	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

var writeModes = map[string]files.Mode{"": files.Truncate, "truncate": files.Truncate, "append": files.Append, "insert": files.Insert}

// writeResource writes to a file.
func (c *conn) writeResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI        string  `json:"uri" jsonx:"required"`
		Data       string  `json:"data" jsonx:"required"`
		Encoding   string  `json:"encoding" jsonx:"required"`
		CreateOnly bool    `json:"createOnly"`
		Mode       string  `json:"mode"`
		Position   int64   `json:"position"`
		IfMatch    *string `json:"ifMatch"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.locate("uri", p.URI)
	switch {
	case err != nil:
		return nil, err
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		return nil, readOnly(p.URI)
	}
	w := files.Write{Data: []byte(p.Data), Position: p.Position, New: p.CreateOnly}
	mode, known := writeModes[p.Mode]
	switch {
	case !known:
		return nil, invalid("mode: %.50q is not truncate, append or insert", p.Mode)
	case p.Position < 0:
		return nil, invalid("position: must not be negative")
	case p.IfMatch != nil && *p.IfMatch == "":
		return nil, jsonrpc.Errorf(codeConflict, "no file has an empty etag")
	case p.IfMatch != nil:
		w.IfMatch = *p.IfMatch
	}
	w.Mode = mode
	switch p.Encoding {
	case encodingText:
	case encodingBase64:
		if w.Data, err = base64.StdEncoding.DecodeString(p.Data); err != nil {
			return nil, invalid("data: is not base64")
		}
	default:
		return nil, invalid("encoding: %.50q is not utf-8 or base64", p.Encoding)
	}
	return c.wrote(c.front.files.Write(at.path, w), at.path)
}

// wrote is done for what changed files: changesets may show them.
func (c *conn) wrote(err error, paths ...string) (any, error) {
	c.front.changesets.wrote(paths...)
	return done(err)
}

// done is the empty answer of the methods that change something.
func done(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// deleteResource removes a file or directory.
func (c *conn) deleteResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI       string `json:"uri" jsonx:"required"`
		Recursive bool   `json:"recursive"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.locate("uri", p.URI)
	switch {
	case err != nil:
		return nil, err
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		return nil, readOnly(p.URI)
	}
	return c.wrote(c.front.files.Delete(at.path, p.Recursive), at.path)
}

// makeDirectory makes a directory and those above it.
func (c *conn) makeDirectory(ctx context.Context, r *jsonrpc.Request) (any, error) {
	at, err := c.resourceOf(r)
	switch {
	case err != nil:
		return nil, err
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		return nil, readOnly(at.uri)
	}
	return done(c.front.files.Mkdir(at.path))
}

func (c *conn) moveResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	return c.transfer(ctx, r, c.front.files.Move)
}

func (c *conn) copyResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	return c.transfer(ctx, r, c.front.files.Copy)
}

// transfer moves or copies from one URI to another. Both must be in one hand,
// as nobody could carry it out otherwise.
func (c *conn) transfer(ctx context.Context, r *jsonrpc.Request, do func(ctx context.Context, from, to string, keep bool) error) (any, error) {
	var p struct {
		Source       string `json:"source" jsonx:"required"`
		Destination  string `json:"destination" jsonx:"required"`
		FailIfExists bool   `json:"failIfExists"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	from, err := c.front.locate("source", p.Source)
	if err != nil {
		return nil, err
	}
	to, err := c.front.locate("destination", p.Destination)
	switch {
	case err != nil:
		return nil, err
	case from.owner != to.owner:
		return nil, invalid("destination: %s does not go from one client or host to another", r.Method)
	case from.owner != nil:
		return c.askOwner(ctx, r, from)
	case to.edit != nil:
		return nil, readOnly(p.Destination)
	case from.edit != nil:
		return nil, readOnly(p.Source)
	}
	return c.wrote(do(ctx, from.path, to.path, p.FailIfExists), from.path, to.path)
}
