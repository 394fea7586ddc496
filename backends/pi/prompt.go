package pi

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// image is a picture of a prompt.
type image struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
	MIME string `json:"mimeType"`
}

// spell is what pi is sent for a prompt: texts in one, and its pictures.
func spell(dirs files.Dirs, p agent.Prompt) (text string, images []image) {
	var b strings.Builder
	b.WriteString(p.Text)
	for _, a := range p.Attachments {
		data := a.Data
		if a.Kind == event.AttachImage && data == nil && a.Path != "" {
			data, _ = dirs.Load(a.Path, maxImage)
		}
		switch {
		case a.Kind == event.AttachImage && data != nil:
			images = append(images, image{"image", data, a.MIME})
		case a.Path != "":
			fmt.Fprintf(&b, "\n\nAttached file: %s", a.Path)
		case a.Text != "":
			fmt.Fprintf(&b, "\n\n<file name=%q>\n%s\n</file>", a.Name, a.Text)
		case utf8.Valid(data):
			fmt.Fprintf(&b, "\n\n<file name=%q>\n%s\n</file>", a.Name, data)
		default:
			fmt.Fprintf(&b, "\n\nThe file %q cannot be shown here: it is not text.", a.Name)
		}
	}
	return b.String(), images
}
