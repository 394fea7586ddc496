package claude

import (
	"encoding/base64"
	"fmt"
	"mime"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

type userBlock struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	Source *userSource `json:"source,omitempty"`
	Title  string      `json:"title,omitempty"`
}

type userSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// images are the picture types the model takes.
var images = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// userRecord is the line that hands a prompt over. The uuid makes the CLI say
// what becomes of it.
func userRecord(dirs []string, uuid string, p agent.Prompt) ([]byte, error) {
	var content []userBlock
	for _, a := range p.Attachments {
		b, err := attachment(dirs, a)
		if err != nil {
			return nil, err
		}
		content = append(content, b)
	}
	// A slash command is one only at the beginning of the message.
	text := userBlock{Type: "text", Text: p.Text}
	if p.Text != "" || len(content) == 0 {
		if strings.HasPrefix(p.Text, "/") {
			content = append([]userBlock{text}, content...)
		} else {
			content = append(content, text)
		}
	}
	type body struct {
		Role    string      `json:"role"`
		Content []userBlock `json:"content"`
	}
	return marshal(struct {
		Type    string  `json:"type"`
		Message body    `json:"message"`
		Parent  *string `json:"parent_tool_use_id"`
		Session string  `json:"session_id"`
		UUID    string  `json:"uuid"`
	}{"user", body{"user", content}, nil, "", uuid}), nil
}

func attachment(dirs []string, a event.Attachment) (userBlock, error) {
	name := a.Name
	if name == "" {
		name = filepath.Base(a.Path)
	}
	if a.Text != "" {
		return userBlock{Type: "text", Text: fmt.Sprintf("<attachment name=%q>\n%s\n</attachment>", name, a.Text)}, nil
	}
	kind := mediaType(a, name)
	if a.Path != "" && len(a.Data) == 0 && !images[kind] {
		return userBlock{Type: "text", Text: "@" + a.Path}, nil // the CLI reads it
	}
	data := a.Data
	if len(data) == 0 && a.Path != "" {
		var err error
		if data, err = files.Dirs(dirs).Load(a.Path, maxAttachment); err != nil {
			return userBlock{}, fmt.Errorf("attachment %s cannot be read: %w", name, files.Reason(err))
		}
	}
	if len(data) > maxAttachment {
		return userBlock{}, fmt.Errorf("attachment %s is larger than %d MiB", name, maxAttachment>>20)
	}
	switch {
	case images[kind]:
		return userBlock{Type: "image", Source: &userSource{"base64", kind, base64.StdEncoding.EncodeToString(data)}}, nil
	case kind == "application/pdf":
		return userBlock{Type: "document", Title: name, Source: &userSource{"base64", kind, base64.StdEncoding.EncodeToString(data)}}, nil
	case utf8.Valid(data):
		return userBlock{Type: "text", Text: fmt.Sprintf("<attachment name=%q>\n%s\n</attachment>", name, data)}, nil
	}
	return userBlock{}, fmt.Errorf("attachment %s is neither text, nor a PDF, nor a picture that Claude takes", name)
}

func mediaType(a event.Attachment, name string) string {
	kind := a.MIME
	if kind == "" {
		kind = mime.TypeByExtension(filepath.Ext(name))
	}
	if base, _, err := mime.ParseMediaType(kind); err == nil {
		kind = base
	}
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	return kind
}
