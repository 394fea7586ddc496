package automation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a gateway in a bubble of fake time, which begins at midnight UTC.
type place struct {
	t     *testing.T
	store store.Store
	dir   string
	host  *host.Host
	set   *automation.Set
	stop  func()
}

// inFakeTime runs a test in such a gateway.
func inFakeTime(t *testing.T, test func(p *place)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, store: memstore.New(), dir: dir}
		p.start()
		defer func() {
			p.stop()
			if err := p.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(p)
	})
}

func (p *place) start() {
	p.t.Helper()
	agent := demo.New()
	log := slog.New(slog.NewTextHandler(p.t.Output(), nil))
	h, err := host.Open(p.t.Context(), host.Options{Store: p.store, Backends: []host.NamedBackend{{Name: "demo", Backend: agent}},
		DefaultDir: p.dir, Log: log, Grace: time.Millisecond})
	if err != nil {
		p.t.Fatal(err)
	}
	set, err := automation.Open(p.t.Context(), h, h.KV("automation"), log)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { set.Run(ctx) })
	p.host, p.set = h, set
	p.stop = func() {
		cancel()
		wg.Wait()
		if err := h.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
		agent.Close()
	}
}

// pass lets time pass and everything come to rest.
func (p *place) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var maker = event.Actor{Front: "test", Name: "Tess"}

func every(expression string) []automation.Trigger {
	return []automation.Trigger{{ID: "t", Schedule: automation.Schedule{Expression: expression, Zone: "UTC"}}}
}

func (p *place) create(name string, d automation.Definition) {
	p.t.Helper()
	if d.Title == "" {
		d.Title = name
	}
	d.By = maker
	if err := p.set.Create(p.t.Context(), name, d, nil); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) update(name string, change func(*automation.Definition)) {
	p.t.Helper()
	err := p.set.Update(p.t.Context(), name, nil, func(d automation.Definition) (automation.Definition, error) { change(&d); return d, nil })
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) run(name, key string) id.ID {
	p.t.Helper()
	run, err := p.set.Start(p.t.Context(), name, key)
	if err != nil {
		p.t.Fatal(err)
	}
	return run
}

func (p *place) get(name string) *automation.Automation {
	p.t.Helper()
	var found *automation.Automation
	p.set.View(func(list []*automation.Automation) {
		for _, a := range list {
			if a.Name == name {
				found = a
			}
		}
	})
	if found == nil {
		p.t.Fatalf("there is no automation %s", name)
	}
	return found
}

// statuses are those of the runs, the newest first.
func (p *place) statuses(name string) string {
	var out []string
	for _, r := range p.get(name).Runs {
		out = append(out, string(r.Status))
	}
	return strings.Join(out, " ")
}

func (p *place) wantRuns(name, want string) {
	p.t.Helper()
	if got := p.statuses(name); got != want {
		p.t.Fatalf("at %v the runs are %q, want %q", time.Now().UTC(), got, want)
	}
}

func TestAScheduleStartsSessionsWithTheMessage(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("hourly", automation.Definition{Title: "Look around", Text: "say good morning", Enabled: true, Triggers: every("30 * * * *"),
			Session: automation.Template{Settings: event.Settings{Mode: event.ModePlan}}})
		if at := p.get("hourly").NextRunAt(); time.Until(at) != 30*time.Minute {
			t.Errorf("the next run is at %v", at)
		}
		p.pass(29 * time.Minute)
		p.wantRuns("hourly", "")
		p.pass(2 * time.Minute)
		p.wantRuns("hourly", "completed")
		r := p.get("hourly").Runs[0]
		sum, ok := p.host.Summary(r.Primary)
		if !ok || sum.Info.Title != "Look around" || sum.Info.Owner != maker || sum.Info.Settings.Mode != event.ModePlan || sum.LastPrompt != "say good morning" {
			t.Errorf("the session is %+v", sum)
		}
		if o, ok := automation.OriginOf(&sum.Info); !ok || o != (automation.Origin{Automation: "hourly", Run: r.ID}) {
			t.Errorf("its origin is %v %v", o, ok)
		}
		if r.Trigger != "t" || r.CatchUp || r.ScheduledFor.Minute() != 30 || r.EndedAt.Before(r.StartedAt) || r.StartedAt.IsZero() {
			t.Errorf("run %+v", r)
		}
		p.pass(2 * time.Hour)
		p.wantRuns("hourly", "completed completed completed")
	})
}

func TestAScheduleFollowsItsTimeZone(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("far", automation.Definition{Text: "say x", Enabled: true, Triggers: []automation.Trigger{
			{ID: "a", Schedule: automation.Schedule{Expression: "0 10 * * *", Zone: "Asia/Tokyo"}},
			{ID: "b", Schedule: automation.Schedule{Expression: "0 9 * * *", Zone: "Europe/Berlin"}}}})
		p.pass(9 * time.Hour)
		runs := p.get("far").Runs
		if len(runs) != 2 || runs[0].Trigger != "b" || runs[0].ScheduledFor.Hour() != 8 || runs[1].ScheduledFor.Hour() != 1 {
			t.Errorf("%+v", runs)
		}
	})
}

func TestAnAutomationGoesOffAfterItsRuns(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("two", automation.Definition{Text: "fail no", Enabled: true, Triggers: every("* * * * *"), MaxRuns: 2})
		p.run("two", "manual") // is not counted
		p.pass(30 * time.Second)
		if a := p.get("two"); a.Counted != 0 || !a.Enabled {
			t.Errorf("a manual run counts: %+v", a)
		}
		p.pass(10 * time.Minute)
		p.wantRuns("two", "failed failed failed")
		a := p.get("two")
		if a.Enabled || a.Counted != 2 || len(a.Next) != 0 {
			t.Errorf("it goes on: %+v", a)
		}
		if r := a.Runs[0]; r.Error == nil || !strings.Contains(r.Error.Message, "no") {
			t.Errorf("why it failed: %+v", r.Error)
		}
		p.run("two", "")
		p.pass(time.Second)
		p.wantRuns("two", "failed failed failed failed")

		p.update("two", func(d *automation.Definition) { d.Enabled = true }) // a fresh allowance
		if a := p.get("two"); a.Counted != 0 || !a.Enabled {
			t.Errorf("switched on: %+v", a)
		}
		p.pass(time.Minute)
		p.update("two", func(d *automation.Definition) { d.MaxRuns = 0 })
		if a := p.get("two"); a.Counted != 0 {
			t.Errorf("counts without a limit: %+v", a)
		}
		p.pass(3 * time.Minute)
		p.update("two", func(d *automation.Definition) { d.MaxRuns = 1 })
		if a := p.get("two"); a.Counted != 0 || !a.Enabled {
			t.Errorf("a limit that was added: %+v", a)
		}
		p.pass(5 * time.Minute)
		p.wantRuns("two", strings.TrimSpace(strings.Repeat("failed ", 4+1+3+1)))
		p.update("two", func(d *automation.Definition) { d.MaxRuns = 0 })
		if p.get("two").Enabled {
			t.Error("clearing the condition switched it on")
		}
	})
}

func TestAnAutomationGoesOffAtItsDate(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		until := time.Now().Add(2 * time.Minute)
		var changes []bool
		p.set.Watch(func(c automation.Change) { changes = append(changes, c.Now.Enabled) })
		p.create("short", automation.Definition{Text: "say x", Enabled: true, Triggers: every("* * * * *"), Until: until})
		p.pass(time.Hour)
		p.wantRuns("short", "completed completed")
		if p.get("short").Enabled || changes[len(changes)-1] {
			t.Error("it goes on")
		}
		p.update("short", func(d *automation.Definition) { d.Enabled = true })
		if p.get("short").Enabled {
			t.Error("it was switched on after its date")
		}
	})
}

// TestADateThatIsFarAwayIsWaitedFor has a date that is further away than a
// duration reaches: a clock that did not rest would let no time pass here.
func TestADateThatIsFarAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("long", automation.Definition{Text: "say x", Enabled: true, Triggers: every("0 * * * *"), Until: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)})
		p.pass(61 * time.Minute)
		p.wantRuns("long", "completed")
	})
}

func TestMissedOccurrencesAreMadeUpForOnce(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("once", automation.Definition{Text: "say x", Enabled: true, Triggers: every("0 * * * *")})
		skip := every("0 * * * *")
		skip[0].SkipMissed = true
		p.create("skip", automation.Definition{Text: "say x", Enabled: true, Triggers: skip})
		p.pass(61 * time.Minute)
		p.wantRuns("once", "completed")
		p.wantRuns("skip", "completed")
		p.stop()
		p.pass(5*time.Hour + 10*time.Minute) // 6:11
		p.start()
		p.pass(time.Second)
		p.wantRuns("once", "completed completed")
		p.wantRuns("skip", "completed")
		if r := p.get("once").Runs[0]; !r.CatchUp || r.ScheduledFor.Hour() != 6 {
			t.Errorf("made up for: %+v", r)
		}
		p.pass(time.Hour)
		p.wantRuns("once", "completed completed completed")
		p.wantRuns("skip", "completed completed")
	})
}

func TestScheduledRunsOfOneAutomationDoNotOverlap(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("slow", automation.Definition{Text: "sleep 150000", Enabled: true, Triggers: every("* * * * *")}) // 2 min 30 s
		p.pass(3*time.Minute + 10*time.Second)
		p.wantRuns("slow", "pending running")
		p.run("slow", "k") // somebody who asks does not wait for them
		p.pass(time.Second)
		p.wantRuns("slow", "running pending running")
		p.pass(20 * time.Second)
		p.wantRuns("slow", "running running completed")
	})
}

func TestNoMoreRunsThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("m", automation.Definition{Text: "sleep 60000"})
		first := p.run("m", "same")
		if again := p.run("m", "same"); again != first {
			t.Error("a request ran twice")
		}
		for range automation.MaxRunning {
			p.run("m", "")
		}
		p.pass(time.Second)
		p.wantRuns("m", "pending running running running running")
		for range automation.MaxWaiting - 1 {
			p.run("m", "")
		}
		if _, err := p.set.Start(p.t.Context(), "m", ""); !errors.Is(err, automation.ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		p.pass(time.Minute)
		if got := p.statuses("m"); strings.Count(got, "running") != automation.MaxRunning || strings.Count(got, "completed") != automation.MaxRunning {
			t.Errorf("a minute later: %s", got)
		}
		if again := p.run("m", "same"); again != first {
			t.Error("a request ran again after its run")
		}
	})
}

func TestACancelledRunStopsItsTurn(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("m", automation.Definition{Text: "sleep 600000"})
		run := p.run("m", "")
		p.pass(time.Second)
		if err := p.set.Cancel(p.t.Context(), run, nil); err != nil {
			t.Fatal(err)
		}
		p.pass(10 * time.Second)
		p.wantRuns("m", "cancelled")
		r := p.get("m").Runs[0]
		if sum, _ := p.host.Summary(r.Primary); sum.Status != host.Idle || sum.LastTurn != event.TurnCancelled {
			t.Errorf("its session: %+v", sum)
		}
		if err := p.set.Cancel(p.t.Context(), run, nil); !errors.Is(err, automation.ErrOver) {
			t.Errorf("again: %v", err)
		}
		if err := p.set.Cancel(p.t.Context(), id.New(), nil); !errors.Is(err, automation.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		// One that waits ends where it stands.
		for range automation.MaxRunning {
			p.run("m", "")
		}
		last := p.run("m", "")
		p.pass(time.Second)
		if err := p.set.Cancel(p.t.Context(), last, nil); err != nil {
			t.Fatal(err)
		}
		p.wantRuns("m", "cancelled running running running running cancelled")
		if r := p.get("m").Runs[0]; !r.StartedAt.IsZero() || len(r.Sessions) != 0 {
			t.Errorf("%+v", r)
		}
		// And what is removed is stopped.
		going := p.get("m").Runs[1].Session
		if err := p.set.Remove(p.t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		p.pass(10 * time.Second)
		if sum, ok := p.host.Summary(going); !ok || sum.LastTurn != event.TurnCancelled {
			t.Errorf("after the removal: %v %+v", ok, sum)
		}
	})
}

func TestARunFollowsItsSession(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("m", automation.Definition{Text: "sleep 600000"})
		p.run("m", "")
		p.pass(time.Second)
		r := p.get("m").Runs[0]
		if err := p.host.DeleteSession(p.t.Context(), r.Primary, maker); err != nil {
			t.Fatal(err)
		}
		p.pass(time.Second)
		p.wantRuns("m", "cancelled")
		if r := p.get("m").Runs[0]; len(r.Sessions) != 0 || !r.Primary.IsNil() {
			t.Errorf("%+v", r)
		}
		p.create("nowhere", automation.Definition{Text: "say x", Session: automation.Template{Dirs: []string{"/nowhere/at/all"}}})
		p.run("nowhere", "")
		p.pass(time.Second)
		p.wantRuns("nowhere", "failed")
		if r := p.get("nowhere").Runs[0]; r.Error.Code != automation.CodeNotStarted || !strings.Contains(r.Error.Message, "/nowhere/at/all") || len(r.Sessions) != 0 {
			t.Errorf("%+v %+v", r, r.Error)
		}
		if list := p.host.List(host.Filter{IncludePrivate: true}); len(list) != 0 {
			t.Errorf("sessions are left: %d", len(list))
		}
	})
}

func TestARestartSettlesWhatRan(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("m", automation.Definition{Text: "sleep 600000", Enabled: true, Triggers: every("0 5 * * *"), MaxRuns: 3})
		for range automation.MaxRunning + 1 {
			p.run("m", "")
		}
		p.pass(time.Second)
		p.wantRuns("m", "pending running running running running")
		before := p.get("m")
		p.stop()
		p.start()
		p.pass(time.Second)
		p.wantRuns("m", "running failed failed failed failed")
		after := p.get("m")
		if after.Title != before.Title || after.MaxRuns != 3 || !after.NextRunAt().Equal(before.NextRunAt()) || after.CreatedAt != before.CreatedAt {
			t.Errorf("was %+v, is %+v", before, after)
		}
		r := after.Runs[1]
		if r.Error.Code != automation.CodeInterrupted || r.Primary != before.Runs[1].Primary || r.EndedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		p.pass(6 * time.Hour)
		p.wantRuns("m", "completed completed failed failed failed failed")
		if p.get("m").Counted != 1 {
			t.Errorf("counted %d", p.get("m").Counted)
		}
	})
}

// TestTheEndOfARunThatNobodyRecordedIsFoundInItsSession stops the clock alone,
// as if the gateway had been killed between the end of a turn and its record.
func TestTheEndOfARunThatNobodyRecordedIsFoundInItsSession(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		log := slog.New(slog.DiscardHandler)
		set, err := automation.Open(p.t.Context(), p.host, p.host.KV("other"), log)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(p.t.Context())
		done := make(chan struct{})
		go func() { defer close(done); set.Run(ctx) }()
		if err := set.Create(ctx, "m", automation.Definition{Title: "m", By: maker, Text: "sleep 10000\nusage 3 4"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := set.Start(ctx, "m", ""); err != nil {
			t.Fatal(err)
		}
		p.pass(time.Second)
		cancel()
		<-done
		p.pass(time.Minute)
		set, err = automation.Open(p.t.Context(), p.host, p.host.KV("other"), log)
		if err != nil {
			t.Fatal(err)
		}
		set.View(func(list []*automation.Automation) {
			if r := list[0].Runs[0]; r.Status != automation.Completed || r.Usage.Output != 4 || r.EndedAt.Sub(r.StartedAt).Round(time.Second) != 10*time.Second {
				t.Errorf("%+v", r)
			}
		})
	})
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		p.create("m", automation.Definition{Text: "say x", Enabled: true, Triggers: every("* * * * *")})
		p.pass(time.Duration(automation.MaxHistory+20)*time.Minute + time.Second)
		runs := p.get("m").Runs
		if len(runs) != automation.MaxHistory || !runs[0].CreatedAt.After(runs[1].CreatedAt) {
			t.Errorf("%d runs", len(runs))
		}
		p.stop()
		p.start()
		again := p.get("m").Runs
		if len(again) != len(runs) || again[0].ID != runs[0].ID || again[len(again)-1].ID != runs[len(runs)-1].ID {
			t.Errorf("%d runs after a restart", len(again))
		}
	})
}

func TestWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		good := automation.Definition{Title: "x", Text: "say x", By: maker}
		p.create("x", good)
		if err := p.set.Create(p.t.Context(), "x", good, nil); !errors.Is(err, automation.ErrExists) {
			t.Errorf("the same name: %v", err)
		}
		two := append(every("* * * * *"), every("* * * * *")...)
		for what, change := range map[string]func(*automation.Definition){
			"no title":     func(d *automation.Definition) { d.Title = " " },
			"same id":      func(d *automation.Definition) { d.Triggers = two },
			"no id":        func(d *automation.Definition) { d.Triggers = every("* * * * *"); d.Triggers[0].ID = "" },
			"bad schedule": func(d *automation.Definition) { d.Triggers = every("* * *") },
			"never":        func(d *automation.Definition) { d.Triggers = every("0 0 30 2 *") },
			"large":        func(d *automation.Definition) { d.Text = strings.Repeat("x", automation.MaxDefinition) },
			"negative":     func(d *automation.Definition) { d.MaxRuns = -1 },
		} {
			d := good
			change(&d)
			if err := p.set.Create(p.t.Context(), "y", d, nil); !errors.Is(err, automation.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := p.set.Create(p.t.Context(), "", good, nil); !errors.Is(err, automation.ErrInvalid) {
			t.Errorf("no name: %v", err)
		}
		for i := range automation.MaxAutomations - 1 {
			p.create(strings.Repeat("y", i+1), good)
		}
		if err := p.set.Create(p.t.Context(), "z", good, nil); !errors.Is(err, automation.ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		same := func(d automation.Definition) (automation.Definition, error) { return d, nil }
		if err := p.set.Update(p.t.Context(), "x", nil, same); !errors.Is(err, automation.ErrUnchanged) {
			t.Errorf("no change: %v", err)
		}
		for _, err := range []error{p.set.Update(p.t.Context(), "n", nil, same), p.set.Remove(p.t.Context(), "n", nil)} {
			if !errors.Is(err, automation.ErrNotFound) {
				t.Errorf("unknown: %v", err)
			}
		}
	})
}

func TestAnAutomationOfAClientThatLeavesIsThereOrNot(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(p *place) {
		left, leave := context.WithCancel(p.t.Context())
		leave()
		names := func() (out []string) {
			p.set.View(func(list []*automation.Automation) {
				for _, a := range list {
					out = append(out, a.Name)
				}
			})
			slices.Sort(out)
			return out
		}
		for i := range 40 { // whether the store or the leaving is heard first is chance
			d := automation.Definition{Title: "x", Text: "say x", Triggers: every("0 12 * * *"), By: maker}
			_ = p.set.Create(left, fmt.Sprintf("a%02d", i), d, nil)
		}
		_ = p.set.Remove(left, "a07", nil)
		before := names()
		p.stop()
		p.start()
		if after := names(); !slices.Equal(before, after) {
			p.t.Errorf("there were %q, and after a restart %q", before, after)
		}
	})
}
