package addon

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Contents is what a plugin says that it has.
type Contents struct {
	// Name and Version are of its manifest, "" without.
	Name    string
	Version string
	// Items are in the order of their kinds and paths.
	Items []Item
}

// ItemKind is what an item is.
type ItemKind string

// The kinds of items.
const (
	Command  ItemKind = "command"
	Skill    ItemKind = "skill"
	Subagent ItemKind = "subagent"
	Rule     ItemKind = "rule"
	Hook     ItemKind = "hook"
)

// Item is one thing in a plugin.
type Item struct {
	Kind        ItemKind
	Name        string
	Path        string // with slashes, in the plugin
	Description string
	// Hint says what a command or a skill is to be given.
	Hint string
	// Model is what a subagent runs on, Tools what it may use.
	Model string
	Tools []string
	// Always and Globs say when a rule applies.
	Always bool
	Globs  []string
	// NotByModel and NotByUser: only people, or only the agent, ask for it.
	NotByModel, NotByUser bool
}

// manifests are where a plugin says its name, the first that is there.
var manifests = []string{".claude-plugin/plugin.json", ".plugin/plugin.json", "plugin.json"}

// read finds out what is in a plugin's folder.
func read(dir string) (*Contents, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c := &Contents{}
	for _, m := range manifests {
		if b := head(root, m, maxManifest); b != nil {
			c.Name, c.Version = manifest(b)
			break
		}
	}
	c.commands(root, "commands", "", 0)
	for _, name := range names(root, "skills") {
		at := path.Join("skills", name, "SKILL.md")
		if b := head(root, at, maxHead); b != nil {
			c.add(Skill, name, at, frontMatter(b))
		}
	}
	for _, k := range []struct {
		kind    ItemKind
		folder  string
		endings []string
	}{{Subagent, "agents", []string{".agent.md", ".md"}}, {Rule, "rules", []string{".instructions.md", ".mdc", ".md"}}} {
		for _, name := range names(root, k.folder) {
			at := path.Join(k.folder, name)
			if base, ok := without(name, k.endings); ok {
				c.add(k.kind, base, at, frontMatter(head(root, at, maxHead)))
			}
		}
	}
	if head(root, "hooks/hooks.json", 1) != nil {
		c.add(Hook, "hooks", "hooks/hooks.json", nil)
	}
	return c, nil
}

// commands adds those of a folder and of the folders in it, whose names come
// before theirs.
func (c *Contents) commands(root *os.Root, folder, prefix string, depth int) {
	for _, name := range names(root, folder) {
		at := path.Join(folder, name)
		if base, ok := without(name, []string{".prompt.md", ".md"}); ok {
			m := frontMatter(head(root, at, maxHead))
			delete(m, "name") // a command is called as its file is
			c.add(Command, prefix+base, at, m)
		} else if info, err := root.Lstat(at); err == nil && info.IsDir() && depth < MaxDepth {
			c.commands(root, at, prefix+name+":", depth+1)
		}
	}
}

func without(name string, endings []string) (string, bool) {
	for _, e := range endings {
		if base, ok := strings.CutSuffix(name, e); ok && base != "" {
			return base, true
		}
	}
	return "", false
}

func (c *Contents) add(kind ItemKind, name, at string, m map[string]field) {
	if len(c.Items) == MaxItems {
		return
	}
	if own := m["name"].text; own != "" {
		name = own
	}
	c.Items = append(c.Items, Item{Kind: kind, Name: clip(name), Path: at, Description: clip(m["description"].text), Hint: clip(m["argument-hint"].text),
		Model: clip(m["model"].text), Tools: m["tools"].list(), Always: m["alwaysApply"].is("true"),
		Globs:      slices.Concat(m["globs"].list(), m["applyTo"].list(), m["paths"].list()),
		NotByModel: m["disable-model-invocation"].is("true"), NotByUser: m["user-invocable"].is("false")})
}

// names are those in a folder, in their order; none if it is not there.
func names(root *os.Root, folder string) (out []string) {
	dir, err := root.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, err := dir.ReadDir(MaxFiles)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

// head is the beginning of a regular file, nil if there is none.
func head(root *os.Root, at string, limit int64) []byte {
	info, err := root.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := root.Open(at)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

// manifest reads a plugin's name and version; what makes no sense is left out.
func manifest(b []byte) (name, version string) {
	var m struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.Unmarshal(b, &m) != nil {
		return "", ""
	}
	return clip(m.Name), clip(m.Version)
}

// field is a value of a file's front matter: a text, or the texts of a list.
type field struct {
	text  string
	items []string
}

func (f field) is(text string) bool { return strings.EqualFold(f.text, text) }

// list are the texts of a list, which may also be written with commas.
func (f field) list() (out []string) {
	all := f.items
	if all == nil && f.text != "" {
		all = strings.Split(strings.Trim(f.text, "[]"), ",")
	}
	for _, s := range all {
		if s = clip(unquoted(strings.TrimSpace(s))); s != "" && len(out) < MaxItems {
			out = append(out, s)
		}
	}
	return out
}

// frontMatter reads the lines between the two "---" at the beginning of a file:
// the plain part of YAML that such files use. What it does not know it leaves
// out.
func frontMatter(b []byte) map[string]field {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	lines := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	if strings.TrimRight(lines[0], " ") != "---" {
		return nil
	}
	out := map[string]field{}
	key := ""
	folds := false
	for _, line := range lines[1:] {
		trimmed := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		item, isItem := strings.CutPrefix(trimmed, "- ")
		switch {
		case strings.TrimRight(line, " ") == "---":
			return out
		case trimmed == "" || strings.HasPrefix(trimmed, "#") && !folds:
		case isItem && key != "" && !folds:
			f := out[key]
			f.items = append(f.items, strings.TrimSpace(item))
			out[key] = f
		case indented && key != "" && folds:
			f := out[key]
			f.text = strings.TrimSpace(f.text + " " + trimmed)
			out[key] = f
		case indented:
		default:
			k, value, ok := strings.Cut(trimmed, ":")
			if !ok || len(out) == MaxItems {
				key = ""
				continue
			}
			key, value = strings.TrimSpace(k), strings.TrimSpace(value)
			if folds = strings.HasPrefix(value, ">") || strings.HasPrefix(value, "|"); folds {
				value = ""
			}
			out[key] = field{text: unquoted(value)}
		}
	}
	return nil // it does not end
}

func unquoted(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] {
		return s
	}
	switch s[0] {
	case '"':
		var out string
		if json.Unmarshal([]byte(s), &out) == nil {
			return out
		}
		return s[1 : len(s)-1]
	case '\'':
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	}
	return s
}

// clip makes a text one line of bounded length.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
