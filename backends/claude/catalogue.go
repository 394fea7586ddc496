package claude

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/lines"
)

// The CLI keeps each conversation in a file of JSON lines, named by its id, in a
// folder for the working directory. What is in a line is not promised, so
// lines that are not understood are passed over.

// projects opens the folder of all conversations; nil if there is none.
func (b *Backend) projects() (*os.Root, error) {
	root, err := os.OpenRoot(filepath.Join(b.config(), "projects"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}

// config is the folder where the CLI keeps its things.
func (b *Backend) config() string {
	if dir := b.variable("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(b.variable("HOME"), ".claude")
}

func (b *Backend) variable(name string) string {
	for _, v := range slices.Backward(b.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return os.Getenv(name)
}

type transcript struct {
	name    string // inside of projects
	id      string
	changed time.Time
}

// newer orders transcripts, the newest first.
func newer(a, b transcript) int {
	return cmp.Or(b.changed.Compare(a.changed), strings.Compare(a.id, b.id))
}

// folderShape is what the CLI makes a - of in a directory's name.
var folderShape = regexp.MustCompile(`[^A-Za-z0-9]`)

// Conversations lists the conversations of one directory or of all.
func (b *Backend) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	var page agent.ConversationPage
	root, err := b.projects()
	if root == nil || err != nil {
		return page, err
	}
	defer root.Close()
	all, err := transcripts(root, q.Dir)
	if err != nil {
		return page, err
	}
	after, err := parseMark(q.After)
	if err != nil {
		return page, err
	}
	limit := bounded(q.Limit, maxListed)
	var last transcript
	for _, t := range all {
		if q.After != "" && newer(t, after) <= 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return page, err
		}
		p, ok := outline(root, t)
		if !ok || q.Dir != "" && p.Dir != q.Dir {
			continue
		}
		if len(page.Conversations) == limit {
			page.Next = mark(last)
			return page, nil
		}
		last = t
		page.Conversations = append(page.Conversations, p)
	}
	return page, nil
}

// mark names a place in the list.
func mark(t transcript) string { return strconv.FormatInt(t.changed.UnixNano(), 10) + "/" + t.id }

func parseMark(s string) (transcript, error) {
	if s == "" {
		return transcript{}, nil
	}
	at, id, ok := strings.Cut(s, "/")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return transcript{}, fmt.Errorf("%q is no place in the list of conversations", s)
	}
	return transcript{id: id, changed: time.Unix(0, n)}, nil
}

func bounded(limit, most int) int {
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}

// transcripts lists the files, the newest first.
func transcripts(root *os.Root, dir string) (all []transcript, err error) {
	folders, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list Claude Code's conversations: %w", err)
	}
	own := folderShape.ReplaceAllString(dir, "-")
	if dir != "" && slices.ContainsFunc(folders, func(e fs.DirEntry) bool { return e.Name() == own }) {
		folders = slices.DeleteFunc(folders, func(e fs.DirEntry) bool { return e.Name() != own })
	}
	for _, folder := range folders {
		files, err := fs.ReadDir(root.FS(), folder.Name())
		if err != nil {
			continue // no folder, or not ours to read
		}
		for _, f := range files {
			id, ok := strings.CutSuffix(f.Name(), ".jsonl")
			info, err := f.Info()
			if !ok || err != nil || !info.Mode().IsRegular() || len(all) >= maxTranscripts {
				continue
			}
			all = append(all, transcript{folder.Name() + "/" + f.Name(), id, info.ModTime()})
		}
	}
	slices.SortFunc(all, newer)
	return all, nil
}

// outline reads what the list shows from the beginning and the end of a file;
// false for one without a prompt.
func outline(root *os.Root, t transcript) (agent.PastConversation, bool) {
	p := agent.PastConversation{ID: t.id, UpdatedAt: t.changed}
	f, err := root.Open(t.name)
	if err != nil {
		return p, false
	}
	defer f.Close()
	title, first := "", ""
	look := func(r *pastRecord) {
		title = cmp.Or(r.CustomTitle, r.AITitle, r.Summary, title)
		if p.Dir == "" {
			p.Dir = r.Cwd
		}
		if p.CreatedAt.IsZero() {
			p.CreatedAt = r.Timestamp
		}
		if text, _, ok := r.prompt(); ok && first == "" {
			first = text
		}
		if r.Type == "assistant" && p.Model == "" {
			var m message
			if json.Unmarshal(r.Message, &m) == nil && m.Model != "<synthetic>" {
				p.Model = m.Model
			}
		}
	}
	scan(io.LimitReader(f, headBytes), look)
	if info, err := f.Stat(); err == nil && info.Size() > headBytes {
		at := max(headBytes, info.Size()-tailBytes)
		scan(io.NewSectionReader(f, at, info.Size()-at), look)
	}
	if p.Title = clip(words(title, first)); first == "" {
		return p, false
	}
	if p.UpdatedAt.Before(p.CreatedAt) {
		p.UpdatedAt = p.CreatedAt
	}
	return p, true
}

// scan reads records; what is none, such as a line that was cut, is passed over.
func scan(r io.Reader, look func(*pastRecord)) {
	in := lines.NewReader(r, 0)
	for {
		line, err := in.Next()
		if errors.Is(err, lines.ErrTooLong) {
			continue
		}
		if err != nil {
			return
		}
		var rec pastRecord
		if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &rec) == nil {
			look(&rec)
		}
	}
}

// idShape is what a conversation's id looks like: no path.
var idShape = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// find opens the transcript of a conversation.
func (b *Backend) find(id string) (*os.File, error) {
	unknown := fmt.Errorf("there is no conversation %s", clip(id))
	if !idShape.MatchString(id) {
		return nil, unknown
	}
	root, err := b.projects()
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, unknown
	}
	defer root.Close()
	folders, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		f, err := root.Open(folder.Name() + "/" + id + ".jsonl")
		if err == nil {
			return f, nil
		}
	}
	return nil, unknown
}
