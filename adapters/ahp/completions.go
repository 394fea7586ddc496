package ahp

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type completion struct {
	InsertText string          `json:"insertText"`
	RangeStart int             `json:"rangeStart"`
	RangeEnd   int             `json:"rangeEnd"`
	Attachment completionShape `json:"attachment"`
}

type completionShape struct {
	Type        string         `json:"type"`
	Label       string         `json:"label"`
	URI         string         `json:"uri,omitempty"`
	DisplayKind string         `json:"displayKind,omitempty"`
	Meta        map[string]any `json:"_meta,omitempty"`
}

// completions completes the word before the cursor: "/" by the agent's own
// commands, at the beginning of a message only, and "@" by files of the
// working directory. Editors ask on the session's channel, the protocol names
// the chat's; both are taken.
func (c *conn) completions(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Kind    string `json:"kind" jsonx:"required"`
		Channel string `json:"channel" jsonx:"required"`
		Text    string `json:"text"`
		Offset  *int   `json:"offset" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if p.Kind != "userMessage" {
		return nil, invalid("kind: want userMessage")
	}
	at, err := c.front.find(ctx, p.Channel)
	if err != nil {
		return nil, err
	}
	sum, ok := c.front.host.Summary(at.session)
	if !ok {
		return nil, sessionNotFound(p.Channel)
	}
	units := utf16.Encode([]rune(p.Text))
	if *p.Offset < 0 || *p.Offset > len(units) {
		return nil, invalid("offset: outside of the text")
	}
	start := *p.Offset
	for start > 0 && units[start-1] != ' ' && units[start-1] != '\n' && units[start-1] != '\t' {
		start--
	}
	word := string(utf16.Decode(units[start:*p.Offset]))
	items := []completion{}
	switch {
	case strings.HasPrefix(word, "/") && start == 0:
		for _, cmd := range c.front.commandsOf(&sum.Info) {
			if cmd.Kept || !containsFold(cmd.Name, word[1:]) || len(items) == maxCompletions {
				continue
			}
			// What has no command here, editors drop.
			meta := map[string]any{"command": cmd.Name, "description": cmd.Description}
			if cmd.Hint != "" {
				meta["argumentHint"] = cmd.Hint
			}
			if cmd.Skill {
				meta["isSkill"] = true
			}
			items = append(items, completion{"/" + cmd.Name + " ", start, *p.Offset,
				completionShape{Type: "simple", Label: "/" + cmd.Name, Meta: meta}})
		}
	case strings.HasPrefix(word, "@") && len(sum.Info.Dirs) > 0:
		for _, rel := range findFiles(ctx, sum.Info.Dirs[0], word[1:]) {
			uri := fileURI(filepath.Join(sum.Info.Dirs[0], rel))
			items = append(items, completion{"@" + filepath.ToSlash(rel), start, *p.Offset,
				completionShape{Type: "resource", Label: filepath.Base(rel), URI: uri, DisplayKind: "document"}})
		}
	}
	return map[string]any{"items": items}, nil
}

// commandsOf are the commands and skills of a session: those that its agent said
// in it, or, before that, those that it has everywhere.
func (f *Front) commandsOf(info *event.SessionInfo) []agent.Command {
	if view := f.host.Extensions().Of(info.ID); view.Offer != nil {
		return view.Offer.Commands
	}
	if a, ok := f.agentNamed(info.Backend); ok {
		return a.Info.Commands
	}
	return nil
}

// findFiles finds files under a directory whose path contains a word, short
// paths first. It follows no links out of the directory, and gives up looking
// after a while.
func findFiles(ctx context.Context, dir, word string) []string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(ctx, walkWithin)
	defer cancel()
	var found []string
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read is left out
		case ctx.Err() != nil:
			return fs.SkipAll
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if seen++; seen > walkFiles {
			return fs.SkipAll
		}
		if d.Type().IsRegular() && containsFold(path, word) {
			found = append(found, path)
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b string) int {
		return strings.Count(a, "/") - strings.Count(b, "/")
	})
	return found[:min(len(found), maxCompletions)]
}
