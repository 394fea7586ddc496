//go:build e2e

package editor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is installed from the npm registry. code-server has the whole of VS Code
// and takes Node 24 alone.
const (
	nodePackage       = "node@24.21.0"
	editorPackage     = "code-server@4.139.1"
	playwrightPackage = "playwright-core@1.65.1"
)

const (
	// cacheVar names the folder that keeps what is installed between runs.
	cacheVar = "POLYHOST_E2E_CACHE"
	// chromiumVar is the browser's program, chromium in the PATH by default.
	chromiumVar = "POLYHOST_E2E_CHROMIUM"
)

// installWithin is how long one step of the installation may take: the editor's
// native modules are compiled.
const installWithin = 20 * time.Minute

// tools is an installed editor with what drives it.
type tools struct {
	node       string // the program
	vscode     string // the folder of the editor's server
	playwright string // a folder that has playwright-core among its modules
	chromium   string // the program
}

// missing says what of the machine's own programs is not there.
func missing() (chromium string, err error) {
	var errs []error
	for _, p := range []string{"npm", "git", "make", "cc", "python3"} {
		if _, err := exec.LookPath(p); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing", p))
		}
	}
	if chromium = os.Getenv(chromiumVar); chromium == "" {
		chromium = "chromium"
	}
	if chromium, err = exec.LookPath(chromium); err != nil {
		errs = append(errs, fmt.Errorf("a Chromium is missing: install one, as by apt-get install chromium, or name it in %s", chromiumVar))
	}
	return chromium, errors.Join(errs...)
}

// install puts everything into the cache unless it is there.
func install(t *testing.T) tools {
	t.Helper()
	chromium, err := missing()
	if err != nil {
		t.Fatal(err)
	}
	dir := cacheFolder(t)
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err != nil {
		t.Logf("installing into %s; this takes some minutes", dir)
		for _, p := range []struct{ folder, name string }{{"node", nodePackage}, {"cs", editorPackage}, {"browser", playwrightPackage}} {
			args := []string{"install", "--prefix", filepath.Join(dir, p.folder), p.name}
			if p.folder != "node" { // whose script fetches the program itself
				args = append(args, "--ignore-scripts")
			}
			npm(t, filepath.Join(dir, p.folder), nil, args...)
		}
	}
	in := tools{
		node:       filepath.Join(dir, "node/node_modules/node/bin/node"),
		vscode:     filepath.Join(dir, "cs/node_modules/code-server/lib/vscode"),
		playwright: filepath.Join(dir, "browser"),
		chromium:   chromium,
	}
	if _, err := os.Stat(done); err == nil {
		return in
	}
	// Both folders have modules of their own, some of which are compiled: against
	// the headers that the node package brings.
	headers, err := filepath.Glob(filepath.Join(dir, "node/node_modules/node/node_modules/node-*/include"))
	if err != nil || len(headers) != 1 {
		t.Fatalf("%s brought no headers: %v %v", nodePackage, headers, err)
	}
	env := []string{"PATH=" + filepath.Dir(in.node) + string(os.PathListSeparator) + os.Getenv("PATH"), "npm_config_nodedir=" + filepath.Dir(headers[0])}
	for _, folder := range []string{in.vscode, filepath.Join(in.vscode, "extensions")} {
		npm(t, folder, env, "install", "--omit=dev")
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return in
}

func cacheFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(cacheVar)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(base, "polyhost-e2e")
	}
	dir = filepath.Join(dir, "vscode-"+strings.NewReplacer("@", "-").Replace(strings.Join([]string{nodePackage, editorPackage, playwrightPackage}, "+")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func npm(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", append(args, "--no-audit", "--no-fund", "--loglevel=error")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second // for what npm has started
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %s in %s: %v\n%s\nThe editor's modules are compiled: they need make, a C++ compiler, python3 and the headers of libkrb5 (libkrb5-dev).",
			strings.Join(args, " "), dir, err, out)
	}
}
