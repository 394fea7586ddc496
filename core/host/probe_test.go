package host_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// absent is an agent whose program is not there, until it is.
type absent struct {
	*demo.Backend
	there atomic.Bool
	asked atomic.Int64
}

func (a *absent) Info(ctx context.Context) (agent.Info, error) {
	a.asked.Add(1)
	return a.Backend.Info(ctx)
}

func (a *absent) missing() error {
	if a.there.Load() {
		return nil
	}
	return &agent.Problem{Code: agent.ProblemMissing, Message: "it is not installed", Fix: "install it"}
}

func TestAnAgentIsOfferedOnceItIsInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &absent{Backend: demo.New()}
		h, err := host.Open(t.Context(), host.Options{Store: memstore.New(), DefaultDir: t.TempDir(), Backends: []host.NamedBackend{
			{Name: "absent", Backend: a, Missing: a.missing}, {Name: "demo", Backend: demo.New()}}})
		if err != nil {
			t.Fatal(err)
		}
		offered := func() string {
			names := ""
			for _, i := range h.Agents() {
				names += i.Name + " "
			}
			return names
		}
		if got := offered(); got != "demo " {
			t.Errorf("offered at once: %s", got)
		}
		synctest.Wait()
		s, err := h.CreateSession(t.Context(), host.CreateSession{By: tester})
		if err != nil || s.State().Info.Backend != "demo" {
			t.Errorf("the default is %s, %v", s.State().Info.Backend, err)
		}
		h.ProbeAgents(t.Context())
		if p := h.AllAgents()[0].Problems; len(p) != 1 || p[0].Fix != "install it" {
			t.Errorf("problems: %+v", p)
		}
		if a.asked.Load() != 0 {
			t.Error("a plugin was started for an agent that is not there")
		}
		a.there.Store(true)
		time.Sleep(host.ReprobeMost)
		synctest.Wait()
		if got := offered(); got != "absent demo " {
			t.Errorf("offered then: %s", got)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// shaky fails to say what it is for some times.
type shaky struct {
	*demo.Backend
	left atomic.Int64
}

func (s *shaky) Info(ctx context.Context) (agent.Info, error) {
	if s.left.Add(-1) >= 0 {
		return agent.Info{}, errors.New("no luck")
	}
	return s.Backend.Info(ctx)
}

func TestAnAgentThatFailedIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &shaky{Backend: demo.New()}
		b.left.Store(2)
		h, err := host.Open(t.Context(), host.Options{Store: memstore.New(), DefaultDir: t.TempDir(),
			Backends: []host.NamedBackend{{Name: "shaky", Backend: b}}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a := h.Agents(); len(a) != 1 || a[0].Known || a[0].Err == nil {
			t.Errorf("at first: %+v", a)
		}
		time.Sleep(3*host.ReprobeFirst + time.Second)
		synctest.Wait()
		if a := h.Agents(); !a[0].Known || a[0].Err != nil || len(a[0].Info.Models) == 0 {
			t.Errorf("then: %+v", a)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// mute leaves the question what it is unanswered while it is told to.
type mute struct {
	*demo.Backend
	silent atomic.Bool
}

func (m *mute) Info(ctx context.Context) (agent.Info, error) {
	if m.silent.Load() {
		<-ctx.Done()
		return agent.Info{}, ctx.Err()
	}
	return m.Backend.Info(ctx)
}

func TestWhoGivesUpAskingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &mute{Backend: demo.New()}
		b.silent.Store(true)
		h, err := host.Open(t.Context(), host.Options{Store: memstore.New(), DefaultDir: t.TempDir(),
			Backends: []host.NamedBackend{{Name: "mute", Backend: b}}})
		if err != nil {
			t.Fatal(err)
		}
		impatient := func() host.AgentInfo {
			ctx, cancel := context.WithTimeout(t.Context(), host.ProbeWithin/4)
			defer cancel()
			h.ProbeAgents(ctx)
			return h.AllAgents()[0]
		}
		if a := impatient(); a.Known || a.Err != nil {
			t.Errorf("before its time is up: %+v", a)
		}
		time.Sleep(host.ProbeWithin)
		synctest.Wait()
		if a := h.AllAgents()[0]; a.Err == nil || !strings.Contains(a.Err.Error(), "no answer within 30s") {
			t.Errorf("after that: %+v", a)
		}
		b.silent.Store(false)
		time.Sleep(host.ReprobeMost)
		synctest.Wait()
		b.silent.Store(true)
		if a := impatient(); !a.Known || a.Err != nil {
			t.Errorf("an agent that had answered: %+v", a)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
