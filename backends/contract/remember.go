package contract

import (
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

// Remember runs three conversations of the Text prompt in one directory, the
// newest of them with three turns, for backends that keep what they did. It is
// a Config.Past.
func (c Config) Remember(open func(*testing.T) agent.Backend) func(*testing.T) (agent.Backend, string) {
	return func(t *testing.T) (agent.Backend, string) {
		b := open(t)
		s := suite{c: c}
		first := begin(t, b, agent.Open{})
		s.identified(first, "t1")
		for _, turns := range [][]string{{"t2"}, {"t3", "t4", "t5"}} {
			k := begin(t, b, agent.Open{Dirs: []string{first.dir}})
			for _, turn := range turns {
				k.prompt(turn, c.Text)
				k.until(agent.TurnEnd)
			}
		}
		return b, first.dir
	}
}
