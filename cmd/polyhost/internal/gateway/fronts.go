package gateway

import (
	"slices"
	"strings"

	"github.com/polyhost/polyhost/adapters/ahp"
	"github.com/polyhost/polyhost/adapters/bae"
	"github.com/polyhost/polyhost/adapters/cognitio"
	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/adapters/snowpea"
	"github.com/polyhost/polyhost/adapters/zidane"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

// entry is a front that this program can serve.
type entry struct {
	name string
	// port is the place of its first port over the base: ports keep their
	// places whatever other fronts are switched on.
	port      int
	listeners []string
	open      func(front.Deps) (front.Front, error)
	// secret is the file in the home that keeps its secrets.
	secret string
	// rotate makes them new, where removing the file is not enough.
	rotate func(home string) error
}

// fronts are all of them. The console takes more than the others and is
// opened apart.
var fronts = []entry{
	{name: "snowpea", port: 0, listeners: []string{""}, open: snowpea.New, secret: "token"},
	{name: "ahp", port: 1, listeners: []string{""}, open: ahp.New, secret: "ahp.token"},
	{name: "zidane", port: 2, listeners: []string{""}, open: zidane.New, secret: "zidane.token"},
	{name: "cognitio", port: 3, listeners: []string{""}, open: cognitio.New, secret: "cognitio.password"},
	{name: "bae", port: 4, listeners: []string{"", "admin"}, open: bae.New, secret: bae.KeysFile, rotate: bae.RotateKeys},
	{name: console.Name, port: 6, listeners: []string{""}, secret: console.TokenFile},
}

// Ports are the ports that the settings ask for, by what listens there; none
// if free ones are to be picked.
func Ports(s settings.Settings) map[int]string {
	ports := map[int]string{}
	if s.PortBase == 0 {
		return ports
	}
	for _, f := range fronts {
		if !f.wanted(s) {
			continue
		}
		for i, name := range f.listeners {
			ports[s.PortBase+f.port+i] = strings.TrimSpace(f.name + " " + name)
		}
	}
	return ports
}

func (e entry) wanted(s settings.Settings) bool {
	return e.name == console.Name || slices.Contains(s.Fronts, e.name)
}
