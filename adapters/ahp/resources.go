package ahp

import (
	"context"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// resource is what a URI of the resource methods names: one of path, edit and
// owner is set.
type resource struct {
	uri   string
	path  string   // of a file of this machine
	edit  *editRef // the text of an edit, or of a file in a commit
	owner *client  // a connected client that has it
}

// locate finds out what a URI names. field is where the URI stood.
func (f *Front) locate(field, uri string) (resource, error) {
	r := resource{uri: uri}
	scheme, authority, ok := splitURI(uri)
	switch {
	case len(uri) > maxResourceURI:
		return r, invalid("%s: longer than %d bytes", field, maxResourceURI)
	case !ok:
		return r, invalid("%s: %.200q is no absolute URI", field, uri)
	case scheme == "file":
		path, err := filePath(uri)
		if err != nil {
			return r, invalid("%s: %v", field, errorText(err))
		}
		r.path = path
		return r, nil
	case strings.HasPrefix(scheme, ahpPrefix):
		if g := parseGit(uri); g != nil {
			r.edit = &editRef{git: g, name: filepath.Base(g.path)}
		} else if r.edit, ok = parseEdit(uri); !ok {
			return r, nothingAt(uri)
		}
		return r, nil
	}
	if r.owner = f.connected(authority); r.owner == nil {
		return r, nothingAt(uri)
	}
	return r, nil
}

// splitURI takes a URI apart as far as its owner needs: the scheme in small
// letters, the authority without escapes.
func splitURI(uri string) (scheme, authority string, ok bool) {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || !isScheme(scheme) || strings.ContainsAny(uri, " \t\r\n\x00") {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(rest, "//"); ok {
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i]
		}
		var err error
		if authority, err = url.PathUnescape(rest); err != nil {
			return "", "", false
		}
	}
	return strings.ToLower(scheme), authority, true
}

func errorText(err error) string {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return rpc.Message
	}
	return err.Error()
}

func nothingAt(uri string) *jsonrpc.Error {
	return jsonrpc.Errorf(codeNotFound, "there is no %.200s", uri)
}

func denied(format string, args ...any) *jsonrpc.Error {
	e := jsonrpc.Errorf(codePermissionDenied, format, args...)
	e.Data = struct{}{} // required, and there is no grant that would help
	return e
}

// readOnly is what writes to the text of an edit get.
func readOnly(uri string) *jsonrpc.Error { return denied("%.200s is a record of what was", uri) }

// The encodings of content on the wire.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

type readResult struct {
	Data        string `json:"data"`
	Encoding    string `json:"encoding"`
	ContentType string `json:"contentType,omitempty"`
}

// readResource gives the content of a file, as text if it is text.
func (c *conn) readResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI      string `json:"uri" jsonx:"required"`
		Encoding string `json:"encoding"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.locate("uri", p.URI)
	if err != nil {
		return nil, err
	}
	var content []byte
	name := at.path
	switch {
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		var text string
		if at.edit.name == "" {
			return nil, invalid("uri: %.200s is a folder", p.URI)
		}
		name, text, err = c.front.editOf(ctx, p.URI, at.edit)
		content = []byte(text)
	default:
		content, err = c.front.files.Read(at.path)
	}
	if err != nil {
		return nil, err
	}
	out := readResult{ContentType: contentType(name, content), Encoding: encodingText}
	if p.Encoding == encodingBase64 || !isText(content) {
		out.Encoding, out.Data = encodingBase64, base64.StdEncoding.EncodeToString(content)
	} else {
		out.Data = string(content)
	}
	return out, nil
}

// isText reports whether content can go as a JSON string: it is UTF-8 and has
// no control characters, which would each take six bytes.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			return false
		}
	}
	return utf8.Valid(b)
}

// contentType is the media type, by the name if that says and else by what
// the content looks like.
func contentType(name string, content []byte) string {
	t := mime.TypeByExtension(filepath.Ext(name))
	if t == "" {
		t = http.DetectContentType(content)
	}
	t, _, _ = strings.Cut(t, ";")
	return t
}

type directoryEntry struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// listResource gives the entries of a directory.
func (c *conn) listResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	at, err := c.resourceOf(r)
	if err != nil {
		return nil, err
	}
	entries := []directoryEntry{}
	switch {
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		name, _, err := c.front.editOf(ctx, at.uri, at.edit)
		if err != nil {
			return nil, err
		}
		if at.edit.name != "" {
			return nil, invalid("uri: %.200s is not a folder", at.uri)
		}
		entries = append(entries, directoryEntry{name, string(files.File)})
	default:
		list, err := c.front.files.List(at.path)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			entry := directoryEntry{e.Name, string(files.File)}
			if e.Dir {
				entry.Type = string(files.Directory)
			}
			entries = append(entries, entry)
		}
	}
	return struct {
		Entries []directoryEntry `json:"entries"`
	}{entries}, nil
}

// resourceOf reads the uri of a request that names one.
func (c *conn) resourceOf(r *jsonrpc.Request) (resource, error) {
	var p struct {
		URI string `json:"uri" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return resource{}, err
	}
	return c.front.locate("uri", p.URI)
}

type resolveResult struct {
	URI   string `json:"uri"`
	Type  string `json:"type"`
	Size  *int64 `json:"size,omitempty"`
	MTime string `json:"mtime,omitempty"`
	CTime string `json:"ctime,omitempty"`
	ETag  string `json:"etag,omitempty"`
}

// resolveResource tells what a URI really is.
func (c *conn) resolveResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI            string `json:"uri" jsonx:"required"`
		FollowSymlinks *bool  `json:"followSymlinks"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.locate("uri", p.URI)
	if err != nil {
		return nil, err
	}
	switch {
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil:
		_, text, err := c.front.editOf(ctx, p.URI, at.edit)
		if err != nil {
			return nil, err
		}
		if at.edit.name == "" {
			return resolveResult{URI: p.URI, Type: string(files.Directory)}, nil
		}
		size := int64(len(text))
		return resolveResult{URI: p.URI, Type: string(files.File), Size: &size}, nil
	}
	info, err := c.front.files.Stat(at.path, p.FollowSymlinks == nil || *p.FollowSymlinks)
	if err != nil {
		return nil, err
	}
	out := resolveResult{URI: p.URI, Type: string(info.Kind), MTime: stamp(info.ModTime), ETag: info.ETag}
	if info.Path != at.path {
		out.URI = fileURI(info.Path)
	}
	if info.Kind == files.Special {
		out.Type = string(files.File) // the protocol has no other word
	}
	if info.Kind != files.Directory {
		out.Size = &info.Size
	}
	if !info.Born.IsZero() {
		out.CTime = stamp(info.Born)
	}
	return out, nil
}

// requestResource answers whether a resource may be used.
func (c *conn) requestResource(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI   string `json:"uri" jsonx:"required"`
		Read  bool   `json:"read"`
		Write bool   `json:"write"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.locate("uri", p.URI)
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc) && rpc.Code == codeNotFound:
		err = denied("this host does not have %.200s", p.URI)
	case err != nil:
	case at.owner != nil:
		return c.askOwner(ctx, r, at)
	case at.edit != nil && p.Write:
		err = readOnly(p.URI)
	case at.edit == nil:
		err = c.front.files.Allowed(at.path)
	}
	if err != nil {
		return nil, err
	}
	c.log.Info("A client asked for a resource", "client", c.who().id, "uri", clip(p.URI), "read", p.Read || !p.Write, "write", p.Write)
	return struct{}{}, nil
}
