package codex

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

// Skills are offered as commands, and a prompt that begins with one is handed over
// with it; they are told anew when the program says that they changed.
func TestSkillsAreOfferedAndCalled(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	offer := func() (names []string) {
		t.Helper()
		frames := k.Until(agent.Offers)
		for _, c := range frames[len(frames)-1].Offer.Commands {
			if c.Skill != (c.Name != "compact") || c.Description == "" {
				t.Errorf("a command: %+v", c)
			}
			names = append(names, c.Name)
		}
		return names
	}
	if got := strings.Join(offer(), " "); got != "compact wave" {
		t.Errorf("offered: %s", got)
	}
	said := func(turn, prompt string) (text string) {
		t.Helper()
		k.Say(turn, prompt)
		for _, f := range k.Until(agent.TurnEnd) {
			text += f.Text
		}
		return text
	}
	for prompt, called := range map[string]bool{"/wave\nsay hello": true, " /wave at them\nsay hello": true, "/waves\nsay hello": false,
		"/off\nsay hello": false, "say /wave": false, "/\nsay hello": false} {
		if got := said("t", prompt); strings.Contains(got, "with /skills/wave/SKILL.md") != called {
			t.Errorf("%q: said %q", prompt, got)
		}
	}
	k.Say("t2", "skill nod\nsleep 600000") // what is offered may be told after the end of a turn
	if got := strings.Join(offer(), " "); got != "compact wave nod" {
		t.Errorf("offered later: %s", got)
	}
	if err := k.Interrupt(k.Ctx); err != nil {
		t.Fatal(err)
	}
	k.Until(agent.TurnEnd)
	if got := said("t3", "/nod\nsay hello"); !strings.Contains(got, "with /skills/nod/SKILL.md") {
		t.Errorf("said %q", got)
	}
}

func TestNotesOfFailedServersAskOneAtATime(t *testing.T) {
	t.Parallel()
	c := newConversation(quiet(), agent.Open{Dirs: []string{t.TempDir()}})
	c.thread, c.servers.asked, c.servers.asking = "mine", true, true // a question is under way
	for range 3 {
		for _, name := range []string{"a", "b"} {
			if frames := c.starts(nil, []byte(`{"threadId":"mine","name":"`+name+`","status":"failed","error":"no luck"}`)); frames != nil {
				t.Errorf("%s: %+v", name, frames)
			}
		}
	}
	for i := range 2 * maxServers {
		c.starts(nil, []byte(`{"threadId":"mine","name":"x`+strings.Repeat("y", i)+`","status":"failed"}`))
	}
	if n := len(c.servers.failed); n != maxServers || c.servers.failed[0].Name != "a" || c.servers.failed[1].Name != "b" {
		t.Errorf("%d notes wait, the first are %+v", n, c.servers.failed[:2])
	}
}
