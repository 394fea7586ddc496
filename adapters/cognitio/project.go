package cognitio

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// project is a git work tree, or "global" for what is in none. Its id is made
// of the work tree's path: the same for everybody on this machine.
type project struct {
	ID        string      `json:"id"`
	Worktree  string      `json:"worktree"`
	VCS       string      `json:"vcs,omitempty"`
	Time      projectTime `json:"time"`
	Sandboxes []string    `json:"sandboxes"`

	gitDir string
}

type projectTime struct {
	Created int64 `json:"created"`
	Updated int64 `json:"updated"`
}

const globalProject = "global"

// maxProjects bounds the directories that are remembered.
const maxProjects = 10_000

// projects remembers which project a directory belongs to, as every session
// says it and the search walks up the file system.
type projects struct {
	mu    sync.Mutex
	byDir map[string]project
}

func newProjects() *projects { return &projects{byDir: map[string]project{}} }

func (ps *projects) of(dir string) project {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.byDir[dir]; ok {
		return p
	}
	if len(ps.byDir) >= maxProjects {
		clear(ps.byDir)
	}
	p := findProject(dir)
	ps.byDir[dir] = p
	return p
}

func findProject(dir string) project {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		git := filepath.Join(at, ".git")
		if st, err := os.Stat(git); err == nil {
			sum := sha1.Sum([]byte(canonical(at)))
			ms := st.ModTime().UnixMilli()
			return project{ID: hex.EncodeToString(sum[:]), Worktree: at, VCS: "git", Time: projectTime{ms, ms}, Sandboxes: []string{}, gitDir: gitDirOf(git, st)}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	now := time.Now().UnixMilli()
	return project{ID: globalProject, Worktree: "/", Time: projectTime{now, now}, Sandboxes: []string{}}
}

// gitDirOf follows the file that linked work trees have for .git.
func gitDirOf(git string, st os.FileInfo) string {
	if st.IsDir() {
		return git
	}
	raw, err := readSmall(git)
	if err != nil {
		return ""
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(raw), "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(git), dir)
	}
	return dir
}

// readSmall reads a file that is one line.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// branch is what the work tree has checked out, "" if that is no branch.
func (p project) branch() string {
	raw, err := readSmall(filepath.Join(p.gitDir, "HEAD"))
	if p.gitDir == "" || err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(raw), "ref: refs/heads/")
	if !ok {
		return ""
	}
	return name
}

// workDir is the directory a request is about, or the gateway's own.
func (c *call) workDir() string {
	if dir := c.directory(); dir != "" {
		return dir
	}
	return c.f.host.DefaultDir()
}

func currentProject(c *call) (any, error) { return c.f.projects.of(c.workDir()), nil }

func listProjects(c *call) (any, error) {
	out := []project{}
	seen := map[string]bool{}
	add := func(dir string) {
		if p := c.f.projects.of(dir); dir != "" && !seen[p.ID] {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	add(c.f.host.DefaultDir())
	for _, sum := range c.f.host.List(everySession) {
		add(firstDir(&sum.Info))
	}
	return out, nil
}

type paths struct {
	Home      string `json:"home"`
	State     string `json:"state"`
	Config    string `json:"config"`
	Worktree  string `json:"worktree"`
	Directory string `json:"directory"`
}

func getPath(c *call) (any, error) {
	dir := c.workDir()
	home, err := os.UserHomeDir()
	if err != nil {
		home = c.f.deps.Home
	}
	return paths{Home: home, State: c.f.deps.Home, Config: c.f.deps.Home, Worktree: c.f.projects.of(dir).Worktree, Directory: dir}, nil
}

// getApp is how older clients of the family ask where they are.
func getApp(c *call) (any, error) {
	dir := c.workDir()
	p := c.f.projects.of(dir)
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return map[string]any{"hostname": name, "git": p.VCS == "git", "time": map[string]int64{"initialized": p.Time.Created},
		"path": map[string]string{"config": c.f.deps.Home, "data": c.f.deps.Home, "root": p.Worktree, "cwd": dir, "state": c.f.deps.Home}}, nil
}

func getVCS(c *call) (any, error) {
	out := map[string]string{}
	if b := c.f.projects.of(c.workDir()).branch(); b != "" {
		out["branch"] = b
	}
	return out, nil
}
