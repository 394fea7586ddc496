// Package settings is what an operator can configure. One table of flags says
// it all: a flag beats the environment variable of its name, which beats the
// config file's key of its name, which beats the default.
//
//	--approval-timeout 2m    POLYHOST_APPROVAL_TIMEOUT=2m    approval_timeout = "2m"
//
// The package must not know what the settings do.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// FileName is the config file's name in the home.
const FileName = "config.toml"

// Settings are the configuration of a gateway.
type Settings struct {
	// Home is the gateway's directory, absolute.
	Home string
	// PortBase is the first port; 0 picks free ones.
	PortBase int
	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat string
	// Workspace is the working directory of sessions that name none, absolute.
	Workspace string
	// WorktreesRoot is the directory, absolute, for working trees that sessions have of
	// their own; empty puts each beside its repository.
	WorktreesRoot string
	// Backend is the default agent backend; empty is the first one.
	Backend string
	// Fronts are served.
	Fronts []string
	// Mode is the permission mode of sessions that name none.
	Mode            event.Mode
	Grace           time.Duration
	ApprovalTimeout time.Duration
	QuestionTimeout time.Duration
	IdleAfter       time.Duration
	// AgentIdleAfter is how long an agent is kept without a turn; 0 is for ever.
	AgentIdleAfter time.Duration
	// AgentHistory is how many past conversations of each agent are listed.
	AgentHistory int
	// HostTools: agents are offered the gateway's own tools.
	HostTools      bool
	AllowedOrigins []string
	AllowedHosts   []string
	// PluginDir holds agent plugins, absolute.
	PluginDir string
	// PluginPins are the SHA-256 sums, in hex, that plugins must have, by name.
	PluginPins map[string]string
	// PluginEnv are the variables of the gateway's environment that a plugin gets
	// beside the usual ones, separated by spaces, by the plugin's name.
	PluginEnv map[string]string
	// ClientPlugins has plugins that clients bring copied and given to agents.
	ClientPlugins bool
	// DevContainers lets clients bring up the dev containers of folders they trust.
	DevContainers bool
	// ACPAgents are commands of agents that speak the Agent Client Protocol,
	// by the agent's name; arguments are separated by spaces.
	ACPAgents map[string]string
}

// Fronts are the names of all fronts, in the order of their ports.
var Fronts = []string{"snowpea", "ahp", "zidane", "cognitio", "bae"}

// Source finds settings: flags that were bound to it, the environment, and a
// file.
type Source struct {
	flags  *pflag.FlagSet
	config string // the file; empty is FileName in the home, which may be missing
	level  string
	mode   string
	s      Settings
}

// BindHome adds the flags that every command has: where the gateway lives.
func (src *Source) BindHome(fs *pflag.FlagSet) {
	src.flags = pflag.NewFlagSet("settings", pflag.ContinueOnError)
	src.flags.StringVar(&src.s.Home, "home", "~/.polyhost", "the gateway's directory: data, tokens, endpoints.json")
	fs.AddFlagSet(src.flags)
	fs.StringVar(&src.config, "config", "", "config file (default config.toml in the home)")
}

// Bind adds the flags of a command that reads the whole configuration.
func (src *Source) Bind(fs *pflag.FlagSet) {
	s, own := &src.s, pflag.NewFlagSet("settings", pflag.ContinueOnError)
	own.SortFlags = false
	own.IntVar(&s.PortBase, "port-base", DefaultPortBase, "the fronts get this port and the next ones; 0 picks free ports")
	own.StringVar(&src.level, "log-level", "info", "debug, info, warn or error")
	own.StringVar(&s.LogFormat, "log-format", "text", "text or json")
	own.StringVar(&s.Workspace, "workspace", ".", "working directory of sessions that name none")
	own.StringVar(&s.WorktreesRoot, "worktrees-root", "", "directory for working trees of sessions; empty puts each beside its repository")
	own.StringVar(&s.Backend, "backend", "", "default agent backend; empty is the first that is installed")
	own.StringSliceVar(&s.Fronts, "fronts", Fronts, "protocols to serve")
	own.StringVar(&src.mode, "mode", string(event.ModeAccept), "permission mode of new sessions: plan, accept or auto")
	own.DurationVar(&s.Grace, "grace", host.DefaultGrace, "what running turns get when the gateway stops")
	own.DurationVar(&s.ApprovalTimeout, "approval-timeout", host.DefaultApprovalTimeout, "how long an approval waits before it is refused")
	own.DurationVar(&s.QuestionTimeout, "question-timeout", host.DefaultQuestionTimeout, "how long a question waits before it is declined")
	own.DurationVar(&s.IdleAfter, "idle-after", host.DefaultIdleAfter, "how long a session without a turn stays in memory")
	own.DurationVar(&s.AgentIdleAfter, "agent-idle-after", host.DefaultAgentIdleAfter, "how long an agent without a turn runs on; 0 is for ever")
	own.IntVar(&s.AgentHistory, "agent-history", host.DefaultPast, "how many past conversations of each agent are listed; 0 is none")
	own.BoolVar(&s.HostTools, "host-tools", true, "offer agents the gateway's own tools, which look at sessions, hand work on and note things")
	own.StringSliceVar(&s.AllowedOrigins, "allowed-origins", nil, "web origins that may connect, in full, like https://example.org")
	own.StringSliceVar(&s.AllowedHosts, "allowed-hosts", nil, "host names that may be asked for, beside the loopback ones")
	own.StringVar(&s.PluginDir, "plugin-dir", "", "directory of agent plugins; empty is plugins in the home")
	own.StringToStringVar(&s.PluginPins, "plugin-pins", nil, "SHA-256 sums that plugins must have: name=hex")
	own.StringToStringVar(&s.PluginEnv, "plugin-env", nil, "further environment variables that plugins get: name=\"VARIABLE VARIABLE\"")
	own.BoolVar(&s.ClientPlugins, "client-plugins", true, "copy the plugins that clients bring and have agents load them")
	own.BoolVar(&s.DevContainers, "dev-containers", true, "let clients bring up the dev containers of folders they trust")
	own.StringToStringVar(&s.ACPAgents, "acp-agents", nil, "agents that speak the Agent Client Protocol: name=\"COMMAND ARGUMENT\"")
	src.flags.AddFlagSet(own)
	fs.AddFlagSet(own)
}

// Home is where the gateway lives. It does not read the config file, which
// lies there.
func (src *Source) Home() (string, error) {
	f := src.flags.Lookup("home")
	if v, ok := os.LookupEnv(envName(f.Name)); ok && !f.Changed {
		if err := f.Value.Set(v); err != nil {
			return "", fmt.Errorf("%s: %w", envName(f.Name), err)
		}
	}
	home, err := absolute(src.s.Home)
	if err != nil {
		return "", fmt.Errorf("home: %w", err)
	}
	src.s.Home = home
	return home, nil
}

// Load reads everything and checks it.
func (src *Source) Load() (Settings, error) {
	home, err := src.Home()
	if err != nil {
		return Settings{}, err
	}
	file, err := src.readFile(home)
	if err != nil {
		return Settings{}, err
	}
	if err := src.apply(file); err != nil {
		return Settings{}, err
	}
	return src.check()
}

func (src *Source) check() (Settings, error) {
	s := src.s
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if err := s.LogLevel.UnmarshalText([]byte(src.level)); err != nil {
		bad("log-level", "%q is not one of debug, info, warn, error", src.level)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		bad("log-format", "%q is neither text nor json", s.LogFormat)
	}
	s.Mode = event.Mode(src.mode)
	if !slices.Contains([]event.Mode{event.ModePlan, event.ModeAccept, event.ModeAuto}, s.Mode) {
		bad("mode", "%q is not one of plan, accept, auto", src.mode)
	}
	if s.PortBase < 0 || s.PortBase > maxPortBase {
		bad("port-base", "%d is not between 0 and %d", s.PortBase, maxPortBase)
	}
	for _, f := range s.Fronts {
		if !slices.Contains(Fronts, f) {
			bad("fronts", "%q is not one of %s", f, strings.Join(Fronts, ", "))
		}
	}
	for name, d := range map[string]time.Duration{"grace": s.Grace, "approval-timeout": s.ApprovalTimeout,
		"question-timeout": s.QuestionTimeout, "idle-after": s.IdleAfter} {
		if d <= 0 || d > maxDuration {
			bad(name, "%v is not between 0 and %v", d, maxDuration)
		}
	}
	if s.AgentIdleAfter < 0 || s.AgentIdleAfter > maxDuration {
		bad("agent-idle-after", "%v is not between 0 and %v", s.AgentIdleAfter, maxDuration)
	}
	if s.AgentHistory < 0 || s.AgentHistory > maxHistory {
		bad("agent-history", "%d is not between 0 and %d", s.AgentHistory, maxHistory)
	}
	for name, sum := range s.PluginPins {
		if len(sum) != 64 || strings.Trim(strings.ToLower(sum), "0123456789abcdef") != "" {
			bad("plugin-pins", "the sum of %s is not 64 hex digits", name)
		}
	}
	for name, command := range s.ACPAgents {
		if name == "" || len(name) > maxAgentName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			bad("acp-agents", "the name %q is not made of at most %d small letters, digits and hyphens", name, maxAgentName)
		}
		if strings.TrimSpace(command) == "" {
			bad("acp-agents", "%s has no command", name)
		}
	}
	var err error
	if s.Workspace, err = absolute(s.Workspace); err != nil {
		bad("workspace", "%v", err)
	}
	if s.WorktreesRoot != "" {
		if s.WorktreesRoot, err = absolute(s.WorktreesRoot); err != nil {
			bad("worktrees-root", "%v", err)
		}
	}
	if s.PluginDir == "" {
		s.PluginDir = filepath.Join(s.Home, "plugins")
	} else if s.PluginDir, err = absolute(s.PluginDir); err != nil {
		bad("plugin-dir", "%v", err)
	}
	return s, errors.Join(errs...)
}

// absolute resolves "~/" and makes a path absolute.
func absolute(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(user, path[1:])
	}
	return filepath.Abs(path)
}
