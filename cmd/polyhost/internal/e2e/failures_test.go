//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

// failures are what a model's service can do wrong, and what clients are to be
// told. All of them are played in one chat, which has to stay usable.
var failures = []struct{ script, code string }{
	{"fail 400", event.CodeBadRequest},
	{"fail 401", event.CodeAuth},
	{"fail 429 1", event.CodeRateLimited},
	{"fail 529", event.CodeOverloaded},
	{"cut 5", event.CodeCutStream},
	{"refuse", event.CodeRefusal},
	{"overflow", event.CodeOverflow},
}

func failed(t *testing.T, r *rig) {
	k := r.talk(t)
	for _, f := range failures {
		code, other := r.cli.failures[f.script]
		switch {
		case !other:
			code = f.code
		case code == silent:
			continue
		}
		k.prompt(f.script, nil)
		seen, end := k.ended()
		if code == "" {
			if end.Status != event.TurnComplete {
				t.Errorf("%q ended %s", f.script, encode(end))
			}
			continue
		}
		if end.Status != event.TurnFailed || end.Error == nil || end.Error.Code != code || end.Error.Message == "" {
			t.Errorf("%q ended %s, not as %s; said %q", f.script, encode(end), code, text(seen))
			continue
		}
		// A program may say that it tries once more; the error itself is told once.
		if said := strings.TrimSpace(text(seen)); said != "" &&
			(strings.Contains(said, end.Error.Message) || strings.Contains(end.Error.Message, said)) {
			t.Errorf("%q: beside the error %q it said %q", f.script, end.Error.Message, said)
		}
		for _, p := range bodies[*event.PartStarted](seen) {
			if n := p.Part.Notice; n != nil && n.Code != "retry" && strings.Contains(n.Text, end.Error.Message) {
				t.Errorf("%q: the error was told as %s, too", f.script, encode(n))
			}
		}
	}
	k.play("say 2 words")
}
