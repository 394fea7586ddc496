package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/git"
)

// What is configured of a session in a git working tree when it is created, and
// never after: whether it works there or in a tree of its own, and what that is
// to be.
const (
	keyIsolation = "isolation"
	keyBranch    = "branch"
	keyPrefix    = "worktreeBranchPrefix"
	keyTrack     = "worktreeBranchTrack"
	keyFresh     = "worktreeCreateNewBranch"
	keyInclude   = "worktreeIncludeFiles"
	keyLinks     = "worktreeSymlinkFolders"

	inFolder = "folder"
	inTree   = "worktree"

	// metaIsolation is where a session keeps it.
	metaIsolation = front + ".isolation"
)

// isolation is what was chosen.
type isolation struct {
	Kind    string   `json:"kind"`
	Branch  string   `json:"branch,omitempty"`
	Prefix  string   `json:"-"`
	Track   bool     `json:"-"`
	Fresh   bool     `json:"-"`
	Include []string `json:"-"`
	Links   []string `json:"-"`
	// Tree is the session's own working tree.
	Tree *git.Added `json:"tree,omitempty"`
}

// withIsolation declares it in a schema; branches are some of those that a tree
// can begin at, current the one that is checked out.
func withIsolation(s configSchema, branches []string, current string) {
	text := configProperty{Type: "string", Title: "Pattern"}
	branch := configProperty{Type: "string", Title: "Branch", Description: "The branch that the working tree begins at",
		Enum: branches, EnumLabels: branches, EnumDynamic: true}
	if current != "" {
		branch.Default = current
	}
	s.Properties[keyIsolation] = configProperty{Type: "string", Title: "Isolation", Description: "Where the agent works",
		Enum: []string{inFolder, inTree}, EnumLabels: []string{"Folder", "Worktree"}, Default: inFolder,
		EnumDescriptions: []string{"In the folder itself", "In a git working tree of the session's own"}}
	s.Properties[keyBranch] = branch
	s.Properties[keyPrefix] = configProperty{Type: "string", Title: "Branch prefix", Description: "Begins the name of the working tree's branch",
		Default: branchPrefix, ReadOnly: true}
	s.Properties[keyTrack] = configProperty{Type: "boolean", Title: "Follow", Description: "Whether the working tree's branch follows the one that it begins at",
		Default: false, ReadOnly: true}
	s.Properties[keyFresh] = configProperty{Type: "boolean", Title: "New branch", Description: "Whether the working tree gets a branch of its own",
		Default: true, ReadOnly: true}
	s.Properties[keyInclude] = configProperty{Type: "array", Title: "Files to copy", Description: "Patterns of ignored files that are copied into the working tree",
		Items: &text, ReadOnly: true}
	s.Properties[keyLinks] = configProperty{Type: "array", Title: "Folders to link", Description: "Patterns of ignored folders that the working tree has links to",
		Items: &text, ReadOnly: true}
}

// isolationSchema adds to a schema what can be chosen in a directory; nothing
// where that is in no git working tree.
func (f *Front) isolationSchema(ctx context.Context, s configSchema, dir string) error {
	branches, current, err := f.branches(ctx, dir, "", branchesListed)
	if err == nil && len(branches) > 0 {
		withIsolation(s, branches, current)
	}
	return err
}

// branches lists branches of the repository that a directory is in, none when it
// is in none, and which is checked out.
func (f *Front) branches(ctx context.Context, dir, word string, most int) (list []string, current string, err error) {
	if dir == "" || !inRepository([]string{dir}) {
		return nil, "", nil
	}
	tree, err := f.repos.git.Open(ctx, dir)
	if errors.Is(err, git.ErrNoRepository) {
		return nil, "", nil
	}
	if err == nil {
		current, err = tree.Head(ctx)
	}
	if err == nil {
		list, err = tree.Branches(ctx, word, most)
	}
	return list, current, err
}

// chosenDir is the directory that a session would begin in.
func (f *Front) chosenDir(uri string) (string, error) {
	if uri == "" {
		return f.host.DefaultDir(), nil
	}
	return filePath(uri)
}

// readIsolation reads what a client chose; nil when it chose nothing.
func readIsolation(config map[string]json.RawMessage) (*isolation, error) {
	if config[keyIsolation] == nil {
		return nil, nil
	}
	i := &isolation{Prefix: branchPrefix, Fresh: true}
	for key, to := range map[string]any{keyIsolation: &i.Kind, keyBranch: &i.Branch, keyPrefix: &i.Prefix, keyTrack: &i.Track, keyFresh: &i.Fresh} {
		if raw := config[key]; raw != nil && json.Unmarshal(raw, to) != nil {
			return nil, invalid("config.%s: it is of another type", key)
		}
	}
	for key, to := range map[string]*[]string{keyInclude: &i.Include, keyLinks: &i.Links} {
		if raw := config[key]; raw != nil {
			list, ok := listOf(raw)
			if !ok {
				return nil, invalid("config.%s: want a list of patterns", key)
			}
			*to = list
		}
	}
	return i, nil
}

// listOf reads a list of texts, which may be one text with commas.
func listOf(raw json.RawMessage) ([]string, bool) {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list, true
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, false
	}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list, true
}

// isolationOf is what was chosen for a session; nil for nothing.
func isolationOf(info *event.SessionInfo) *isolation {
	raw := info.Meta[metaIsolation]
	if raw == nil {
		return nil
	}
	i := &isolation{}
	if json.Unmarshal(raw, i) != nil {
		return nil
	}
	return i
}

// fixedValues are the settings of a session that cannot change.
func fixedValues(info *event.SessionInfo) map[string]string {
	i := isolationOf(info)
	if i == nil {
		return nil
	}
	v := map[string]string{keyIsolation: i.Kind}
	if i.Branch != "" {
		v[keyBranch] = i.Branch
	}
	return v
}

// dropFixed takes out of a change what says what is so anyway, and refuses what
// would change it.
func dropFixed(info *event.SessionInfo, config map[string]json.RawMessage) error {
	fixed := fixedValues(info)
	for key, raw := range config {
		if !slices.Contains([]string{keyIsolation, keyBranch, keyPrefix, keyTrack, keyFresh, keyInclude, keyLinks}, key) || fixed == nil {
			continue
		}
		var word string
		if json.Unmarshal(raw, &word) != nil || word != fixed[key] {
			return refusal("the setting " + key + " is chosen when a session is created")
		}
		delete(config, key)
	}
	return nil
}
