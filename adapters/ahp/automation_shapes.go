package ahp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// automationCapabilities say what a client may do with automations: what is
// absent is not offered.
type automationCapabilities struct {
	Create    struct{} `json:"create"`
	Schedules struct {
		MinIntervalMinutes int `json:"minIntervalMinutes"`
	} `json:"schedules"`
	// Customizations: templates may name plugins.
	Customizations  *struct{} `json:"customizations,omitempty"`
	RunCancellation struct{}  `json:"runCancellation"`
	RunHistoryLimit int       `json:"runHistoryLimit"`
}

func (f *Front) automationsOffered() automationCapabilities {
	c := automationCapabilities{RunHistoryLimit: automation.MaxHistory}
	if f.plugins.store != nil {
		c.Customizations = &struct{}{}
	}
	c.Schedules.MinIntervalMinutes = 1
	return c
}

type automationState struct {
	Entries []automationEntry `json:"entries"`
}

type automationEntry struct {
	Resource       string            `json:"resource"`
	Definition     automationShape   `json:"definition"`
	NextRunAt      string            `json:"nextRunAt,omitempty"`
	RunCount       *int              `json:"runCount,omitempty"`
	Runs           []automationRunIn `json:"runs"`
	RunsNextCursor string            `json:"runsNextCursor,omitempty"`
	Operations     []string          `json:"operations"`
	Customizations []customization   `json:"customizations,omitempty"` // the copies
	CreatedAt      string            `json:"createdAt"`
	ModifiedAt     string            `json:"modifiedAt"`
	Meta           map[string]string `json:"_meta,omitempty"`
}

// automationShape is a definition.
type automationShape struct {
	Title             string                     `json:"title" jsonx:"required"`
	Message           json.RawMessage            `json:"message,omitempty" jsonx:"required"`
	Session           sessionTemplate            `json:"session" jsonx:"required"`
	Enabled           bool                       `json:"enabled" jsonx:"required"`
	Triggers          []triggerShape             `json:"triggers" jsonx:"required"`
	DisableConditions []disableCondition         `json:"disableConditions,omitempty"`
	Meta              map[string]json.RawMessage `json:"_meta,omitempty"`
}

type sessionTemplate struct {
	Provider           string                     `json:"provider,omitempty"`
	Model              *modelChoice               `json:"model,omitempty"`
	Agent              *agentChoice               `json:"agent,omitempty"`
	WorkingDirectories []string                   `json:"workingDirectories,omitempty"`
	Config             map[string]json.RawMessage `json:"config,omitempty"`
	Customizations     []announcedPlugin          `json:"customizations,omitempty"`
}

type modelChoice struct {
	ID     string                     `json:"id" jsonx:"required"`
	Config map[string]json.RawMessage `json:"config,omitempty"`
}

type agentChoice struct {
	URI string `json:"uri" jsonx:"required"`
}

type triggerShape struct {
	ID            string         `json:"id" jsonx:"required"`
	Kind          string         `json:"kind" jsonx:"required"`
	Schedule      *scheduleShape `json:"schedule,omitempty"`
	MisfirePolicy string         `json:"misfirePolicy,omitempty"`
}

type scheduleShape struct {
	Expression string `json:"expression" jsonx:"required"`
	TimeZone   string `json:"timeZone" jsonx:"required"`
}

type disableCondition struct {
	Kind string  `json:"kind" jsonx:"required"`
	Max  *int    `json:"max,omitempty"`
	Date *string `json:"date,omitempty"`
}

const (
	afterRuns   = "afterRuns"
	afterDate   = "afterDate"
	misfireSkip = "skip"
	misfireOnce = "runOnce"
)

// automationRunHead is what a run's own state and its line in the history
// share.
type automationRunHead struct {
	Resource       string            `json:"resource"`
	Automation     string            `json:"automation"`
	Origin         runOrigin         `json:"origin"`
	Lifecycle      runLifecycle      `json:"lifecycle"`
	PrimarySession string            `json:"primarySession,omitempty"`
	Meta           map[string]string `json:"_meta,omitempty"`
}

type automationRunIn struct {
	automationRunHead
	SessionCount int `json:"sessionCount"`
}

type automationRunState struct {
	automationRunHead
	Sessions []string `json:"sessions"`
}

type runOrigin struct {
	Kind         string `json:"kind"`
	TriggerID    string `json:"triggerId,omitempty"`
	ScheduledFor string `json:"scheduledFor,omitempty"`
	CatchUp      bool   `json:"catchUp,omitempty"`
}

type runLifecycle struct {
	Status      string      `json:"status"`
	CreatedAt   string      `json:"createdAt"`
	StartedAt   string      `json:"startedAt,omitempty"`
	CompletedAt string      `json:"completedAt,omitempty"`
	Usage       *usageShape `json:"usage,omitempty"`
	Error       *errorInfo  `json:"error,omitempty"`
}

// sessionOrigin says which run made a session.
type sessionOrigin struct {
	Kind       string `json:"kind"`
	Automation string `json:"automation"`
	Run        string `json:"run"`
}

func sessionOriginOf(info *event.SessionInfo) *sessionOrigin {
	o, ok := automation.OriginOf(info)
	if !ok {
		return nil
	}
	return &sessionOrigin{"automation", automationURI(o.Automation), runURI(o.Run)}
}

const (
	automationScheme = "ahp-automation"
	runScheme        = "ahp-automation-run"
)

func automationURI(name string) string { return automationScheme + ":/" + name }
func runURI(run id.ID) string          { return runScheme + ":/" + run.String() }

// automationName is what an automation is called behind its scheme.
func automationName(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, automationScheme+":/")
	return name, ok && name != ""
}

func stampOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t)
}

func lifecycleShape(r *automation.Run) runLifecycle {
	l := runLifecycle{Status: string(r.Status), CreatedAt: stamp(r.CreatedAt), StartedAt: stampOrNone(r.StartedAt), CompletedAt: stampOrNone(r.EndedAt)}
	switch {
	case r.Status == automation.Completed:
		l.Usage = usage(r.Usage, event.ContextReported{})
	case r.Status == automation.Failed && r.Error != nil:
		l.Error = &errorInfo{r.Error.Code, r.Error.Message}
	}
	return l
}

func originShape(r *automation.Run) runOrigin {
	if r.Trigger == "" {
		return runOrigin{Kind: "manual"}
	}
	return runOrigin{"trigger", r.Trigger, stampOrNone(r.ScheduledFor), r.CatchUp}
}

// definitionShape is a definition as it was given, with what can change since.
func definitionShape(d *automation.Definition) automationShape {
	var s automationShape
	_ = json.Unmarshal(d.Rich, &s) // we wrote it
	s.Message = richOf(&event.Message{By: d.By, Rich: d.RichMessage}).Message
	s.Title, s.Enabled = d.Title, d.Enabled
	return s
}

// readDefinition judges a definition. templated says that its session template
// is new: what it names must be there then.
func (f *Front) readDefinition(raw json.RawMessage, templated bool) (automation.Definition, error) {
	var s automationShape
	var d automation.Definition
	if err := decode(raw, &s, "definition"); err != nil {
		return d, err
	}
	in, err := readMessage(s.Message)
	if err != nil {
		return d, err
	}
	if len(in.chats) > 0 {
		return d, refusal("message: an automation brings no chats")
	}
	said := map[string]json.RawMessage{}
	if err := decode(s.Message, &said, "message"); err != nil {
		return d, err
	}
	said["origin"] = encode(kindOnly{"automation"})
	d = automation.Definition{Title: strings.TrimSpace(s.Title), Text: in.text, Command: in.command(), Attachments: in.attachments,
		Message: in.settings, RichMessage: encode(richMessage{Message: encode(said)}), Enabled: s.Enabled}
	if d.Session, err = f.readTemplate(&s.Session, templated); err != nil {
		return d, err
	}
	if len(s.Triggers) > automation.MaxTriggers {
		return d, refusal("an automation has too many triggers")
	}
	for i := range s.Triggers {
		t, err := readTrigger(&s.Triggers[i])
		if err != nil {
			return d, err
		}
		d.Triggers = append(d.Triggers, t)
	}
	if d.MaxRuns, d.Until, err = readConditions(s.DisableConditions); err != nil {
		return d, err
	}
	s.Title, s.Message, s.Enabled = "", nil, false // kept elsewhere
	d.Rich = encode(s)
	return d, nil
}

func (f *Front) readTemplate(t *sessionTemplate, templated bool) (automation.Template, error) {
	out := automation.Template{Backend: t.Provider}
	if t.Agent != nil {
		return out, refusal("this host has no custom agent " + clip(t.Agent.URI))
	}
	if err := f.judgeTemplate(t.Customizations); err != nil {
		return out, err
	}
	for i := range t.Customizations {
		p := &t.Customizations[i]
		p.Type, p.Name = typePlugin, cmp.Or(p.Name, p.ID)
	}
	if templated && t.Provider != "" {
		if _, ok := f.agentNamed(t.Provider); !ok {
			return out, refusal("no such agent: " + clip(t.Provider))
		}
	}
	if len(t.WorkingDirectories) > host.MaxDirs {
		return out, refusal("the template names too many working directories")
	}
	for _, uri := range t.WorkingDirectories {
		dir, err := filePath(uri)
		if err != nil {
			return out, refusal(refusalText(err))
		}
		out.Dirs = append(out.Dirs, dir)
	}
	backend := t.Provider
	if backend == "" {
		backend = f.host.Agents()[0].Name
	}
	delete(t.Config, keyShells) // they are a window's, of the moment
	out.Settings, _ = settingsFrom(event.Settings{}, t.Config, f.schemaOf(backend), false)
	if t.Model != nil {
		picked := messageSettings(&modelSelection{ID: t.Model.ID, Config: t.Model.Config})
		if picked.Model != "" {
			out.Settings.Model = picked.Model
		}
		if picked.Effort != "" {
			out.Settings.Effort = picked.Effort
		}
	}
	return out, nil
}

func readTrigger(t *triggerShape) (automation.Trigger, error) {
	out := automation.Trigger{ID: t.ID, SkipMissed: t.MisfirePolicy == misfireSkip}
	switch {
	case t.Kind == "event":
		return out, refusal("this host starts no runs by events: it has no definition of such a trigger")
	case t.Kind != "schedule":
		return out, refusal("this host knows no trigger of the kind " + clip(t.Kind))
	case t.Schedule == nil:
		return out, refusal("the trigger " + clip(t.ID) + " has no schedule")
	case !slices.Contains([]string{"", misfireSkip, misfireOnce}, t.MisfirePolicy):
		return out, refusal("a misfire policy is skip or runOnce, not " + clip(t.MisfirePolicy))
	}
	out.Schedule = automation.Schedule{Expression: t.Schedule.Expression, Zone: t.Schedule.TimeZone}
	return out, nil
}

func readConditions(list []disableCondition) (maxRuns int, until time.Time, err error) {
	seen := map[string]bool{}
	for i := range list {
		c := &list[i]
		if seen[c.Kind] {
			return 0, until, refusal("the condition " + clip(c.Kind) + " is there twice")
		}
		seen[c.Kind] = true
		switch c.Kind {
		case afterRuns:
			if c.Max == nil || *c.Max < 1 {
				return 0, until, refusal("the max of afterRuns is a whole number, one or more")
			}
			maxRuns, c.Date = *c.Max, nil
		case afterDate:
			if c.Date == nil {
				return 0, until, refusal("afterDate has no date")
			}
			if until, err = time.Parse(time.RFC3339Nano, *c.Date); err != nil {
				return 0, until, refusal("the date of afterDate is no timestamp: " + clip(*c.Date))
			}
			until, c.Max = until.UTC(), nil
		default:
			return 0, until, refusal("this host knows no condition " + clip(c.Kind))
		}
	}
	return maxRuns, until, nil
}
