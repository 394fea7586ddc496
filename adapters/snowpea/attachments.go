package snowpea

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"os"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// attachment is what a client adds to a prompt.
type attachment struct {
	Kind      string  `json:"kind"`
	Name      *string `json:"name"`
	MimeType  *string `json:"mimeType"`
	Data      *string `json:"data"`
	Path      *string `json:"path"`
	Text      *string `json:"text"`
	Title     *string `json:"title"`
	URL       *string `json:"url"`
	Selection *string `json:"selection"`
	Snapshot  *string `json:"snapshot"`
}

// maxSnapshot cuts the page text that an attachment brings, in characters.
const maxSnapshot = 60000

// readAttachments turns them into the core's, with how they are listed.
func readAttachments(dirs []string, in []attachment) ([]event.Attachment, json.RawMessage, error) {
	if len(in) == 0 {
		return nil, nil, nil
	}
	if len(in) > maxAttachments {
		return nil, nil, invalid("attachments", "are %d, at most %d are taken", len(in), maxAttachments)
	}
	var rich messageRich
	out := make([]event.Attachment, len(in))
	for i, a := range in {
		var err error
		if out[i], err = a.read(dirs); err != nil {
			return nil, nil, err
		}
		listed := userAttachment{Kind: out[i].Kind, Name: out[i].Name}
		if a.Kind == "page" {
			listed = userAttachment{Kind: "page", Name: out[i].Name, Title: a.Title, URL: a.URL}
		}
		rich.Attachments = append(rich.Attachments, listed)
	}
	b, err := json.Marshal(rich)
	return out, b, err
}

func (a *attachment) read(dirs []string) (event.Attachment, error) {
	out := event.Attachment{Kind: a.Kind, Name: deref(a.Name), MIME: deref(a.MimeType)}
	switch {
	case a.Kind == "page":
		out.Kind, out.Text = event.AttachText, a.page()
		if out.Name == "" {
			out.Name = deref(a.Title)
		}
	case a.Data != nil:
		data, err := base64.StdEncoding.DecodeString(*a.Data)
		if err != nil {
			return out, invalid("attachments", "the data of %q is not base64", cut(out.Name, 80))
		}
		if len(data) > attachmentLimit {
			return out, invalid("attachments", "%q has %d bytes, at most %d are taken", cut(out.Name, 80), len(data), attachmentLimit)
		}
		out.Data, out.Size = data, int64(len(data))
	case a.Path != nil:
		return a.file(dirs, out)
	case a.Text != nil:
		out.Kind, out.Text = event.AttachText, *a.Text
	default:
		return out, invalid("attachments", "%q has neither data, path nor text", cut(out.Name, 80))
	}
	if out.Kind == "" || out.Kind == event.AttachText && out.Data != nil {
		out.Kind = event.AttachFile
	}
	if strings.HasPrefix(out.MIME, "image/") && out.Data != nil {
		out.Kind = event.AttachImage
	}
	return out, nil
}

// file checks a path: a regular file inside a working directory.
func (a *attachment) file(dirs []string, out event.Attachment) (event.Attachment, error) {
	path := *a.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(firstDir(dirs), path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return out, invalid("attachments", "%s cannot be read", *a.Path)
	}
	if !insideAny(dirs, real) {
		return out, invalid("attachments", "%s is outside the working directory", *a.Path)
	}
	st, err := os.Stat(real)
	switch {
	case err != nil || !st.Mode().IsRegular():
		return out, invalid("attachments", "%s is not a file", *a.Path)
	case st.Size() > attachmentLimit:
		return out, invalid("attachments", "%s has %d bytes, at most %d are taken", *a.Path, st.Size(), attachmentLimit)
	}
	out.Path, out.Size = real, st.Size()
	if out.Name == "" {
		out.Name = filepath.Base(real)
	}
	if out.MIME == "" {
		out.MIME = mime.TypeByExtension(filepath.Ext(real))
	}
	out.Kind = event.AttachFile
	if strings.HasPrefix(out.MIME, "image/") {
		out.Kind = event.AttachImage
	}
	return out, nil
}

func insideAny(dirs []string, path string) bool {
	for _, d := range dirs {
		if real, err := filepath.EvalSymlinks(d); err == nil {
			if rel, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}

// page is a web page as the agent reads it, marked as what nobody vouches for.
func (a *attachment) page() string {
	var b strings.Builder
	b.WriteString("<untrusted-page>\n")
	for _, part := range []struct {
		name string
		text *string
	}{{"Title", a.Title}, {"URL", a.URL}, {"Selection", a.Selection}, {"Text", a.Text}, {"Snapshot", a.Snapshot}} {
		if t := deref(part.text); t != "" {
			b.WriteString(part.name + ": " + cut(t, maxSnapshot) + "\n")
		}
	}
	b.WriteString("</untrusted-page>")
	return b.String()
}
