package codex

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestTheMCPServersOfAConversationAreTold(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	var last []agent.ServerStatus
	until := func(want ...string) {
		t.Helper()
		for {
			var got []string
			for _, s := range last {
				got = append(got, s.Name+" "+string(s.State))
			}
			slices.Sort(got)
			if slices.Equal(got, want) {
				return
			}
			frames := k.Until(agent.Servers)
			last = frames[len(frames)-1].Servers
		}
	}
	k.Say("t1", "server polyhost ready\nserver docs ready\nserver shut failed\nserver bad failed\nsleep 60000")
	until("bad failed", "docs ready", "shut sign_in", "unused off")
	for _, s := range last {
		if s.Name == "shut" && s.URL != "https://example.com/mcp" || s.Name == "bad" && s.Error != "no luck with bad" {
			t.Errorf("a server: %+v", s)
		}
	}
	c := k.Conversation.(agent.ServerSwitcher)
	if err := c.SwitchServer(t.Context(), agent.ServerSwitch{Name: "docs"}); !errors.Is(err, errKeeps) {
		t.Errorf("a server was let go of: %v", err)
	}
	if err := c.SwitchServer(t.Context(), agent.ServerSwitch{Name: "shut", On: true}); err != nil {
		t.Fatal(err)
	}
	until("bad ready", "docs ready", "shut ready", "unused off")
}

func TestANoteOfAServerThatIsNotTheThreadsOwnSaysNothing(t *testing.T) {
	t.Parallel()
	c := newConversation(quiet(), agent.Open{Dirs: []string{t.TempDir()}})
	c.thread, c.servers.asked = "mine", true
	for _, raw := range []string{`7`, `{}`, `{"threadId":"mine"}`, `{"threadId":"other","name":"x","status":"ready"}`,
		`{"threadId":"mine","name":"polyhost","status":"ready"}`} {
		if frames := c.starts(nil, []byte(raw)); frames != nil {
			t.Errorf("%s: %+v", raw, frames)
		}
	}
	ready := []byte(`{"threadId":"mine","name":"x","status":"ready","error":3}`)
	if frames := c.starts(nil, ready); len(frames) != 1 || frames[0].Servers[0].State != agent.ServerReady {
		t.Errorf("a server: %+v", frames)
	}
	if frames := c.starts(nil, ready); frames != nil {
		t.Errorf("the same again: %+v", frames)
	}
	for i := range maxServers + 5 {
		c.starts(nil, []byte(strings.Replace(string(ready), `"x"`, `"x`+strings.Repeat("y", i)+`"`, 1)))
	}
	if n := len(c.servers.list); n != maxServers {
		t.Errorf("%d servers are kept", n)
	}
}
