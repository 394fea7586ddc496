package agenttest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
)

// pieces are the frames whose texts belong together.
var pieces = map[agent.FrameKind]bool{agent.TextDelta: true, agent.ReasoningDelta: true, agent.ToolInput: true, agent.ToolOutput: true}

// Spell writes frames as JSON, one a line. Pieces of one text become one line:
// where they are cut is chance.
func Spell(frames []agent.Frame) string {
	var out strings.Builder
	for i := 0; i < len(frames); i++ {
		f := frames[i]
		for pieces[f.Kind] && i+1 < len(frames) && continues(&f, &frames[i+1]) {
			i++
			f.Text += frames[i].Text
		}
		b, err := json.Marshal(f)
		if err != nil {
			b = []byte(err.Error())
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	return out.String()
}

func continues(f, next *agent.Frame) bool {
	return f.Kind == next.Kind && f.Child == next.Child && f.Part == next.Part && f.Call == next.Call && f.Stderr == next.Stderr
}

// names gives ids names that are the same in every run.
type names struct {
	prefix string
	known  map[string]string
}

func (n *names) replace(text string, ids *regexp.Regexp) string {
	if n.known == nil {
		n.known = map[string]string{}
	}
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if n.known[id] == "" {
			n.known[id] = fmt.Sprintf("%s-%d", n.prefix, len(n.known)+1)
		}
		return n.known[id]
	})
}
