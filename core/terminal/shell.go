package terminal

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/environ"
)

// ErrShell is a shell that is not there or cannot be run.
var ErrShell = errors.New("that shell cannot be started")

// integration are the start-up files that let shells mark their commands.
//
//go:embed integration
var integration embed.FS

// The integration's files, as they are embedded and as they are called in the
// directory that shells read them from.
var integrationFiles = map[string]string{
	"polyhost.bash": "polyhost.bash",
	"zshenv":        "zsh/.zshenv",
	"zshrc":         "zsh/.zshrc",
}

// writeIntegration puts the start-up files into a directory.
func writeIntegration(dir string) error {
	for from, to := range integrationFiles {
		b, err := fs.ReadFile(integration, "integration/"+from)
		if err != nil {
			return fmt.Errorf("shell integration: %w", err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("shell integration: %w", err)
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			return fmt.Errorf("shell integration: %w", err)
		}
	}
	return nil
}

// shellPath is the shell to run: the one asked for, the user's, or sh.
func shellPath(want string) (string, error) {
	if want != "" {
		if !filepath.IsAbs(want) {
			return "", fmt.Errorf("%w: %.200q is no absolute path", ErrShell, want)
		}
		if _, err := exec.LookPath(want); err != nil {
			return "", fmt.Errorf("%w: %.200q is no program", ErrShell, want)
		}
		return want, nil
	}
	if own := os.Getenv("SHELL"); filepath.IsAbs(own) {
		if _, err := exec.LookPath(own); err == nil {
			return own, nil
		}
	}
	return "/bin/sh", nil
}

// command makes the program of a terminal. dir has the integration; it is ""
// when there is none.
func command(o *Open, shell, dir string, more []string) *exec.Cmd {
	env := append([]string{"TERM=xterm-256color", "COLORTERM=truecolor", "TERM_PROGRAM=polyhost", "SHELL=" + shell}, more...)
	cmd := &exec.Cmd{Path: shell, Args: []string{shell}, Dir: o.Dir}
	switch kind := filepath.Base(shell); {
	case o.Command != "":
		cmd.Args = append(cmd.Args, "-c", o.Command)
	case dir == "":
	case kind == "bash":
		cmd.Args = append(cmd.Args, "--rcfile", filepath.Join(dir, "polyhost.bash"), "-i")
	case kind == "zsh":
		env = append(env, "ZDOTDIR="+filepath.Join(dir, "zsh"))
		if own := os.Getenv("ZDOTDIR"); own != "" {
			env = append(env, "POLYHOST_ZDOTDIR="+own)
		}
	}
	cmd.Env = environ.For(nil, env)
	return cmd
}

// shellTitle is the title of a terminal that was given none.
func shellTitle(o *Open, shell string) string {
	if o.Command != "" {
		line, _, _ := strings.Cut(strings.TrimSpace(o.Command), "\n")
		return clip(line, MaxTitle)
	}
	return clip(filepath.Base(shell), MaxTitle)
}
