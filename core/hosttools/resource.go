package hosttools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/id"
)

// Resources are what the clients of a session have and this machine has not: an
// editor's unsaved texts, the files of a remote file system.
type Resources interface {
	// Read gives a content, List the names in a folder, Stat what is known of
	// something. Only clients that take part in the session are asked.
	Read(ctx context.Context, session id.ID, uri string) (content []byte, err error)
	List(ctx context.Context, session id.ID, uri string) ([]Listed, error)
	Stat(ctx context.Context, session id.ID, uri string) (json.RawMessage, error)
	// Change does something to what one client has.
	Change(ctx context.Context, session id.ID, c ResourceChange) error
}

// ResourceChange is one of the changes that an agent may ask a client for.
type ResourceChange struct {
	// Operation is write, delete, mkdir, move or copy.
	Operation string
	// URI is what it is about; To where it is moved or copied to.
	URI, To string
	// Text is what is written.
	Text string
	// Fresh: nothing may be there yet that would be replaced. Whole: a folder goes
	// with all that is in it.
	Fresh, Whole bool
}

// Listed is a name in a folder.
type Listed struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func clientResource(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Operation string `json:"operation" need:"yes"`
		URI       string `json:"uri" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := one("operation", in.Operation, "read", "list", "stat"); err != nil {
		return nil, err
	}
	if len(in.URI) > maxAddress {
		return nil, sayf("uri has more than %d bytes", maxAddress)
	}
	switch in.Operation {
	case "list":
		entries, err := c.lent.Resources.List(c.ctx, c.from.Session, in.URI)
		more := max(0, len(entries)-maxEntries)
		return map[string]any{"entries": entries[:len(entries)-more], "more": more}, err
	case "stat":
		about, err := c.lent.Resources.Stat(c.ctx, c.from.Session, in.URI)
		if len(about) > maxReply {
			return nil, sayf("the client said too much of it")
		}
		return about, err
	}
	content, err := c.lent.Resources.Read(c.ctx, c.from.Session, in.URI)
	if err != nil {
		return nil, err
	}
	out := struct {
		Size int    `json:"size"`
		Text string `json:"text,omitempty"`
		Data string `json:"base64,omitempty"`
		Cut  bool   `json:"cut,omitempty"` // there is more of it
	}{Size: len(content), Cut: len(content) > maxOutput}
	content = content[:min(len(content), maxOutput)]
	if text := strings.ToValidUTF8(string(content), ""); utf8.Valid(content) || out.Cut && len(content)-len(text) < utf8.UTFMax {
		out.Text = text
	} else {
		out.Data = base64.StdEncoding.EncodeToString(content)
	}
	return out, nil
}

func changeResource(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Operation string  `json:"operation" need:"yes"`
		URI       string  `json:"uri" need:"yes"`
		To        string  `json:"destination"`
		Text      *string `json:"text"`
		Fresh     bool    `json:"failIfExists"`
		Whole     bool    `json:"recursive"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := one("operation", in.Operation, "write", "delete", "mkdir", "move", "copy"); err != nil {
		return nil, err
	}
	if max(len(in.URI), len(in.To)) > maxAddress {
		return nil, sayf("a URI has more than %d bytes", maxAddress)
	}
	carries, writes := in.Operation == "move" || in.Operation == "copy", in.Operation == "write"
	switch {
	case carries != (in.To != ""):
		return nil, sentence("destination is for move and copy, and they need one")
	case writes != (in.Text != nil):
		return nil, sentence("text is for write, and it needs one")
	case in.Fresh && !carries && !writes:
		return nil, sentence("failIfExists is for write, move and copy")
	case in.Whole && in.Operation != "delete":
		return nil, sentence("recursive is for delete")
	}
	change := ResourceChange{Operation: in.Operation, URI: in.URI, To: in.To, Fresh: in.Fresh, Whole: in.Whole}
	if writes {
		change.Text = *in.Text
	}
	if err := c.lent.Resources.Change(c.ctx, c.from.Session, change); err != nil {
		return nil, err
	}
	return map[string]any{"done": in.Operation}, nil
}
