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
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
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
	Resource    string         `json:"resource,omitempty"` // of a chat
	EndTurn     string         `json:"endTurn,omitempty"`  // its last turn so far
	DisplayKind string         `json:"displayKind,omitempty"`
	Meta        map[string]any `json:"_meta,omitempty"`
}

// chatWord begins a word that is completed by chats.
const chatWord = "chat:"

// completions completes the word before the cursor: "/" by the agent's own
// commands, at the beginning of a message only, "#chat:" by the session's other
// chats, and "@" and "#" by files of the working directories. A "#" on its way to
// "#chat:" may be either. Editors ask on the session's channel, the protocol names
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
	case strings.HasPrefix(word, "@"), strings.HasPrefix(word, "#"):
		mark, query := word[:1], word[1:]
		files := true
		if lower := strings.ToLower(query); mark == "#" && strings.HasPrefix(chatWord, lower) {
			items, err = c.chatItems(ctx, p.Channel, at, &sum, "")
		} else if mark == "#" && strings.HasPrefix(lower, chatWord) {
			files = false
			items, err = c.chatItems(ctx, p.Channel, at, &sum, query[len(chatWord):])
		}
		if err != nil {
			return nil, err
		}
		if files {
			items = append(items, c.front.fileItems(ctx, dirsAt(&sum, at.chat), mark, query)...)
		}
		for i := range items {
			items[i].RangeStart, items[i].RangeEnd = start, *p.Offset
		}
	}
	return map[string]any{"items": items}, nil
}

// commandsOf are the commands and skills of a session: those that its agent said
// in it, or, before that, those that it has everywhere, and those of its plugins.
func (f *Front) commandsOf(info *event.SessionInfo) []agent.Command {
	var own []agent.Command
	if view := f.host.Extensions().Of(info.ID); view.Offer != nil {
		own = view.Offer.Commands
	} else if a, ok := f.agentNamed(info.Backend); ok {
		own = a.Info.Commands
	}
	return f.withPlugins(own, info)
}

// dirsAt are the working directories of a chat, or of its session.
func dirsAt(sum *host.Summary, chat id.ID) []string {
	for i := range sum.Chats {
		if c := &sum.Chats[i].Info; c.ID == chat && len(c.Dirs) > 0 {
			return c.Dirs
		}
	}
	return sum.Info.Dirs
}

// fileItems completes by files. Those of the first directory have their paths in
// it, others begin with the name of theirs.
func (f *Front) fileItems(ctx context.Context, dirs []string, mark, query string) (items []completion) {
	ctx, cancel := context.WithTimeout(ctx, walkWithin)
	defer cancel()
	left := walkFiles
	for i, dir := range dirs {
		for _, rel := range findFiles(ctx, dir, query, f.files.Fenced, &left) {
			shown := filepath.ToSlash(rel)
			if i > 0 {
				shown = filepath.Base(dir) + "/" + shown
			}
			if len(items) == maxCompletions {
				return items
			}
			items = append(items, completion{InsertText: mark + shown, Attachment: completionShape{Type: "resource",
				Label: filepath.Base(rel), URI: fileURI(filepath.Join(dir, rel)), DisplayKind: "document"}})
		}
	}
	return items
}

// chatItems completes by the session's chats whose title has a text in it, the
// newest first: not by those of subagents, nor by the one that is written in.
func (c *conn) chatItems(ctx context.Context, channel string, at place, sum *host.Summary, query string) ([]completion, error) {
	s, err := c.front.host.Session(ctx, at.session)
	if err != nil {
		return nil, err
	}
	st := s.State()
	sp, writes := at.speller, at.chat
	if rest, isChat := strings.CutPrefix(channel, chatScheme+":"); isChat && ownerOf(rest) == "" {
		sp = speller{c.spelledFor(sum)}
	}
	if writes.IsNil() {
		writes = st.Default
	}
	chats := slices.Clone(st.Chats)
	slices.SortStableFunc(chats, func(a, b *state.Chat) int { return b.ModifiedAt.Compare(a.ModifiedAt) })
	items := []completion{}
	for _, chat := range chats {
		title := chatTitle(&chat.ChatInfo, &st.Info, st.Default)
		if chat.ID == writes || chat.Origin.Kind == event.OriginSubagent || !containsFold(title, query) {
			continue
		}
		if len(items) == maxChatCompletions {
			break
		}
		if title == "" {
			title = "Chat"
		}
		shape := completionShape{Type: "chat", Label: title, Resource: sp.chat(chat.ID, st.Default, chat.Aliases)}
		if n := len(chat.Turns); n > 0 {
			shape.EndTurn = turnID(chat.Turns[n-1])
		}
		items = append(items, completion{InsertText: "#" + chatWord + title, Attachment: shape})
	}
	return items, nil
}

// findFiles finds files under a directory whose path contains a word, short
// paths first. It follows no links out of the directory, and gives up looking
// when ctx ends or as many files were seen as are left to look at.
func findFiles(ctx context.Context, dir, word string, fenced func(string) bool, left *int) []string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil
	}
	defer root.Close()
	var found []string
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read is left out
		case ctx.Err() != nil:
			return fs.SkipAll
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() && fenced(filepath.Join(real, path)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if *left--; *left < 0 {
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
