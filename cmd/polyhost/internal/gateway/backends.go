package gateway

import (
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/host"
)

// openBackends are the agents, the default one first.
func (g *gateway) openBackends() ([]host.NamedBackend, error) {
	list := []host.NamedBackend{{Name: "demo", Backend: demo.New()}}
	if g.o.Backend == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(b host.NamedBackend) bool { return b.Name == g.o.Backend })
	if i < 0 {
		return nil, fmt.Errorf("backend %q is not known", g.o.Backend)
	}
	list[0], list[i] = list[i], list[0]
	return list, nil
}
