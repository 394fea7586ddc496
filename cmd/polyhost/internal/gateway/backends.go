package gateway

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/plugins"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/supervisor"
)

// builtin runs an agent from this binary: a built-in one, or one that is known
// by its command. What the configuration names of the environment reaches the
// agent's own program, too.
func builtin(self string, s settings.Settings, name string, command ...string) supervisor.Options {
	o := supervisor.Options{Name: name, Path: self, Args: append([]string{"backend", name}, command...)}
	named := strings.Fields(s.PluginEnv[name])
	o.PassEnv = append(plugins.BuiltinEnv(name), named...)
	if len(named) > 0 {
		o.Env = []string{plugins.PassVar + "=" + strings.Join(named, ",")}
	}
	return o
}

// Backends are the agents, the default one first: those of the plugin folder,
// then the built-in ones, which are this binary started again. Nothing is
// started yet. An error comes with the agents there are.
func Backends(s settings.Settings, in *supervisor.Instance, log *slog.Logger) ([]host.NamedBackend, error) {
	found, refused, err := discover.Find(s.PluginDir, s.PluginPins)
	if err != nil {
		return nil, err
	}
	for _, why := range refused {
		log.Warn("An agent plugin is not used", "reason", why)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the gateway's own binary: %w", err)
	}
	var list []host.NamedBackend
	add := func(o supervisor.Options) {
		o.Instance, o.Logger = in, log
		list = append(list, host.NamedBackend{Name: o.Name, Backend: supervisor.New(o)})
	}
	builtins := plugins.Builtins()
	for _, p := range found {
		if slices.Contains(builtins, p.Name) {
			log.Warn("An agent plugin is not used", "reason", "the built-in agent has its name", "plugin", p.Path)
			continue
		}
		add(supervisor.Options{Name: p.Name, Path: p.Path, SHA256: p.SHA256, PassEnv: strings.Fields(s.PluginEnv[p.Name])})
	}
	for _, name := range builtins {
		add(builtin(self, s, name))
		list[len(list)-1].Missing = plugins.Missing(name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.ACPAgents)) {
		if slices.ContainsFunc(list, func(b host.NamedBackend) bool { return b.Name == name }) {
			return list, fmt.Errorf("acp-agents: there is an agent named %s already", name)
		}
		command := strings.Fields(s.ACPAgents[name])
		add(builtin(self, s, name, command...))
		list[len(list)-1].Missing = plugins.MissingACP(name, command)
	}
	if s.Backend == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(b host.NamedBackend) bool { return b.Name == s.Backend })
	if i < 0 {
		return list, fmt.Errorf("backend %q is neither built in nor a plugin in %s", s.Backend, s.PluginDir)
	}
	first := list[i]
	return slices.Insert(slices.Delete(list, i, i+1), 0, first), nil
}

// checkDefault refuses a default agent that was asked for by name and is not
// installed: another one would do its work unasked.
func checkDefault(s settings.Settings, first host.NamedBackend) error {
	if s.Backend == "" || first.Missing == nil {
		return nil
	}
	if err := first.Missing(); err != nil {
		return fmt.Errorf("the default backend %q cannot be used: %w", s.Backend, err)
	}
	return nil
}
