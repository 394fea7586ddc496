package gateway

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/plugins"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/supervisor"
)

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
		add(supervisor.Options{Name: name, Path: self, Args: []string{"backend", name},
			PassEnv: append(plugins.BuiltinEnv(name), strings.Fields(s.PluginEnv[name])...)})
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
