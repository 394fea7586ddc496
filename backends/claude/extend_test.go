package claude

import (
	"reflect"
	"testing"

	"github.com/polyhost/polyhost/backends/claude/fake"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
)

// untilServers waits for a frame that says the servers to be so.
func untilServers(t *testing.T, d *agenttest.Talk, want ...agent.ServerStatus) {
	t.Helper()
	for {
		frames, err := d.Recv(d.Ctx)
		if err != nil {
			t.Fatalf("the servers did not become %+v: %v", want, err)
		}
		for _, f := range frames {
			if f.Kind == agent.Servers && reflect.DeepEqual(f.Servers, want) {
				return
			}
		}
	}
}

func TestTheServersOfAConversationAreToldAndSwitched(t *testing.T) {
	t.Parallel()
	d := talk(t, standIn(t, fake.ServersVar+"=docs connected\nwiki failed\npolyhost connected"), agent.Open{})
	d.Say("t1", "say x")
	docs := agent.ServerStatus{Name: "docs", State: agent.ServerReady, URL: "https://example.com/docs"}
	wiki := agent.ServerStatus{Name: "wiki", State: agent.ServerFailed, Error: "nobody is there", URL: "https://example.com/wiki"}
	untilServers(t, d, docs, wiki)
	sw, ok := d.Conversation.(agent.ServerSwitcher)
	if !ok {
		t.Fatal("no servers can be switched")
	}
	if err := sw.SwitchServer(d.Ctx, agent.ServerSwitch{Name: "none", On: true}); err == nil {
		t.Error("a server that is not there was switched")
	}
	if err := sw.SwitchServer(d.Ctx, agent.ServerSwitch{Name: "docs"}); err != nil {
		t.Fatal(err)
	}
	docs.State = agent.ServerOff
	untilServers(t, d, docs, wiki)
	for _, name := range []string{"docs", "wiki"} {
		if err := sw.SwitchServer(d.Ctx, agent.ServerSwitch{Name: name, On: true}); err != nil {
			t.Fatal(err)
		}
	}
	docs.State, wiki.State, wiki.Error = agent.ServerReady, agent.ServerReady, ""
	untilServers(t, d, docs, wiki)
}

func TestATokenSignsInToAServer(t *testing.T) {
	t.Parallel()
	d := talk(t, standIn(t, fake.ServersVar+"=docs needs-auth\nwiki needs-auth"), agent.Open{})
	d.Say("t1", "say x")
	docs := agent.ServerStatus{Name: "docs", State: agent.ServerSignIn, URL: "https://example.com/docs"}
	wiki := agent.ServerStatus{Name: "wiki", State: agent.ServerSignIn, URL: "https://example.com/wiki"}
	untilServers(t, d, docs, wiki)
	sw := d.Conversation.(agent.ServerSwitcher)
	sign := func(name, token string) {
		t.Helper()
		if err := sw.SwitchServer(d.Ctx, agent.ServerSwitch{Name: name, On: true, Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	sign("docs", "wrong")
	docs.State = agent.ServerStarting
	untilServers(t, d, docs, wiki)
	docs.State = agent.ServerSignIn
	untilServers(t, d, docs, wiki)
	sign("docs", "good")
	docs.State = agent.ServerReady
	untilServers(t, d, docs, wiki)
	sign("wiki", "good") // the other one stays
	wiki.State = agent.ServerReady
	untilServers(t, d, docs, wiki)
}

func TestSkillsAreToldFromCommands(t *testing.T) {
	t.Parallel()
	d := talk(t, standIn(t), agent.Open{})
	d.Say("t1", "say x")
	var last *agent.Offer
	for _, f := range d.Until(agent.TurnEnd) {
		if f.Kind == agent.Offers {
			last = f.Offer
		}
	}
	want := &agent.Offer{Commands: []agent.Command{{Name: "compact", Description: "Shorten the conversation", Hint: "[what to keep]"},
		{Name: "review", Description: "Look at a change", Skill: true}, {Name: "secret", Skill: true, Kept: true}},
		Subagents: []agent.Persona{{Name: "Explore", Description: "Looks around"}}}
	if !reflect.DeepEqual(last, want) {
		t.Errorf("the offer is %+v, want %+v", last, want)
	}
}
