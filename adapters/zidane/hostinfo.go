package zidane

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// knownTools are the programs that clients ask for.
var knownTools = []string{"git", "gh", "node", "npm", "bun", "deno", "python3", "uv", "go", "cargo", "docker", "podman", "rg", "claude",
	"codex", "gemini", "opencode", "pi"}

type toolRow struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// hostTools remembers a look at the PATH.
type hostTools struct {
	mu   sync.Mutex
	at   time.Time
	rows []toolRow
}

func (t *hostTools) list(refresh bool) []toolRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	if refresh || time.Since(t.at) > hostInfoFor {
		rows := []toolRow{}
		for _, name := range knownTools {
			if path, err := exec.LookPath(name); err == nil {
				rows = append(rows, toolRow{name, path})
			}
		}
		t.rows, t.at = rows, time.Now()
	}
	return t.rows
}

type allowObject struct {
	Clone          bool `json:"clone"`
	CreateFolders  bool `json:"createFolders"`
	RemoteInstalls bool `json:"remoteInstalls"`
}

func hostInfo(_ context.Context, c *call, p struct {
	Refresh bool `json:"refresh"`
}) (any, error) {
	return struct {
		OS           string      `json:"os"`
		Arch         string      `json:"arch"`
		Tools        []toolRow   `json:"tools"`
		Sandbox      *string     `json:"sandbox"` // none
		Environments []string    `json:"environments"`
		Allow        allowObject `json:"allow"`
	}{OS: runtime.GOOS, Arch: runtime.GOARCH, Tools: c.tools.list(p.Refresh), Environments: []string{hostEnvironment},
		Allow: allowObject{CreateFolders: c.settingOn("allowCreateFolders")}}, nil
}

// serverUpdateStatus says that the server does not update itself.
func serverUpdateStatus(_ context.Context, c *call, _ struct{}) (any, error) {
	return struct {
		State   string `json:"state"`
		Enabled bool   `json:"enabled"`
		Current string `json:"current"`
	}{State: "off", Current: c.deps.Version}, nil
}
