package gateway

import (
	"github.com/polyhost/polyhost/adapters/cognitio"
	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/adapters/zidane"
)

// entry is a front that this program can serve.
type entry struct {
	name string
	// port is the place of its first port over the base: ports keep their
	// places whatever other fronts are switched on.
	port      int
	listeners []string
	open      func(front.Deps) (front.Front, error)
}

// fronts are all of them. The console takes more than the others and is
// opened apart.
var fronts = []entry{
	{name: "zidane", port: 2, listeners: []string{""}, open: zidane.New},
	{name: "cognitio", port: 3, listeners: []string{""}, open: cognitio.New},
	{name: console.Name, port: 6, listeners: []string{""}},
}
