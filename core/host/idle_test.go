package host_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// named ends a turn and says under which id it resumes.
func named(c *rogueTalk, turn string) {
	c.frames <- agent.Frame{Kind: agent.ConversationID, Text: "the conversation"}
	end(c, turn)
}

// afterAnHour runs one turn and waits; it returns how many agents were
// stopped meanwhile.
func afterAnHour(t *testing.T, r *rogue) (stopped int) {
	t.Helper()
	bubble(t, r, func(f *fixture, s *host.Session) {
		promptOn(t, s, "go")
		time.Sleep(time.Hour)
		synctest.Wait()
		_, stopped = r.count()
	})
	return stopped
}

func TestAnAgentThatCannotResumeIsKept(t *testing.T) {
	if n := afterAnHour(t, &rogue{say: named}); n != 0 {
		t.Errorf("%d were stopped", n)
	}
	// It promises to, but never said under which id.
	if n := afterAnHour(t, &rogue{say: end, able: agent.Capabilities{Resume: true}}); n != 0 {
		t.Errorf("%d without an id were stopped", n)
	}
}

func TestAnAgentWithAnOpenTurnOrApprovalIsKept(t *testing.T) {
	able := agent.Capabilities{Resume: true}
	if n := afterAnHour(t, &rogue{able: able, say: func(c *rogueTalk, _ string) {
		c.frames <- agent.Frame{Kind: agent.ConversationID, Text: "the conversation"}
		c.frames <- agent.Frame{Kind: agent.Permission, Call: "c1", Request: "r1",
			Tool: &agent.Tool{Name: "bash", Tag: event.TagExec, Command: "ls", Input: []byte(`{}`)}}
	}}); n != 0 {
		t.Errorf("%d were stopped", n)
	}
}

func TestAnAgentThatWorksInTheBackgroundIsKeptUntilItIsDone(t *testing.T) {
	r := &rogue{able: agent.Capabilities{Resume: true, Background: true}, say: func(c *rogueTalk, turn string) {
		c.frames <- agent.Frame{Kind: agent.Background, Text: "a build"}
		named(c, turn)
	}}
	bubble(t, r, func(f *fixture, s *host.Session) {
		promptOn(t, s, "go")
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, closes := r.count(); closes != 0 {
			t.Fatal("it was stopped in its work")
		}
		r.talks()[0].frames <- agent.Frame{Kind: agent.Background}
		time.Sleep(host.DefaultAgentIdleAfter - time.Minute)
		synctest.Wait()
		if _, closes := r.count(); closes != 0 {
			t.Fatal("it was stopped too early")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if _, closes := r.count(); closes != 1 {
			t.Error("it was not stopped")
		}
	})
}

// The next prompt waits for the process of the last one: two of one
// conversation would write over each other.
func TestTheNextAgentBeginsWhenTheLastHasEnded(t *testing.T) {
	r := &slowToClose{rogue: rogue{say: named, able: agent.Capabilities{Resume: true}}}
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, dir: t.TempDir()}
		f.openOver(r)
		s := f.session()
		p := promptOn(t, s, "go")
		if _, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(context.Background(), tester); err != nil {
			t.Fatal(err)
		}
		promptOn(t, s, "again")
		synctest.Wait()
		if opens, _ := r.count(); opens != 1 {
			t.Fatal("a second process runs beside the first")
		}
		time.Sleep(slowClose)
		synctest.Wait()
		if got := r.resumes(); !slices.Equal(got, []string{"", "the conversation"}) {
			t.Errorf("opened with %q", got)
		}
		if err := f.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

const slowClose = 3 * time.Second

// slowToClose is an agent whose process takes a while to end.
type slowToClose struct{ rogue }

func (r *slowToClose) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	c, err := r.rogue.Open(ctx, o)
	return slowTalk{c}, err
}

type slowTalk struct{ agent.Conversation }

func (c slowTalk) Close() error {
	time.Sleep(slowClose)
	return c.Conversation.Close()
}
