package ahp

import "testing"

// A client that goes on reading gets all of a burst that is far more than the
// journal keeps otherwise.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 50_000
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "stream 50000 4"))
	for at, step := 0, 0; step < 10; step++ { // each with the harness's patience
		n := 0
		_, at = p.wait(at, "a tenth of the deltas", func(f object) bool {
			if a, ok := actionIn(f); ok && a["type"] == "chat/delta" {
				n++
			}
			return n == deltas/10
		})
	}
	text := 0
	for _, part := range p.idle(chat, "t1")["responseParts"].([]any) {
		content, _ := part.(object)["content"].(string)
		text += len(content)
	}
	if text != 4*deltas {
		t.Errorf("%d bytes of text, want %d", text, 4*deltas)
	}
}

func actionIn(frame object) (object, bool) {
	params, _ := frame["params"].(object)
	action, ok := params["action"].(object)
	return action, ok
}
