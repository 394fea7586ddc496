package claude

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/event"
)

// plan is the agent's to-do list, which it keeps by calls that replace the
// whole list or change one task.
type plan struct{ items []event.PlanItem }

type planInput struct {
	Todos []struct {
		ID      string `json:"id"`
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"todos"`
	TaskID  string `json:"taskId"`
	Subject string `json:"subject"`
	Status  string `json:"status"`
}

// take does what a call that succeeded says; nil if the list is as before.
func (p *plan) take(tool string, input json.RawMessage, created string) []event.PlanItem {
	var in planInput
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	switch tool {
	case "TodoWrite":
		p.items = nil
		for i, t := range in.Todos[:min(len(in.Todos), maxTasks)] {
			id := t.ID
			if id == "" {
				id = strconv.Itoa(i + 1)
			}
			p.items = append(p.items, event.PlanItem{ID: id, Text: t.Content, Status: planStatus(t.Status)})
		}
	case "TaskCreate":
		if created == "" || len(p.items) >= maxTasks {
			return nil
		}
		p.items = append(p.items, event.PlanItem{ID: created, Text: in.Subject, Status: event.PlanPending})
	case "TaskUpdate":
		i := slices.IndexFunc(p.items, func(t event.PlanItem) bool { return t.ID == in.TaskID })
		switch {
		case i < 0:
			return nil
		case in.Status == "deleted":
			p.items = slices.Delete(p.items, i, i+1)
		default:
			if in.Status != "" {
				p.items[i].Status = planStatus(in.Status)
			}
			if in.Subject != "" {
				p.items[i].Text = in.Subject
			}
		}
	}
	if p.items == nil {
		return []event.PlanItem{}
	}
	return slices.Clone(p.items)
}

func planStatus(s string) string {
	switch s {
	case "in_progress":
		return event.PlanActive
	case "completed":
		return event.PlanDone
	}
	return event.PlanPending
}
