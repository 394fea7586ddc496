package hosttools

import (
	"encoding/json"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
)

type contextInput struct {
	Session string   `json:"session" need:"yes"`
	Detail  string   `json:"detail"`
	Limit   *float64 `json:"transcriptLimit"`
}

// turnShape is a turn in short.
type turnShape struct {
	At      string     `json:"at"`
	Status  string     `json:"status"`
	Message string     `json:"message"`
	Reply   string     `json:"reply,omitempty"`
	Error   string     `json:"error,omitempty"`
	Tools   []callView `json:"tools,omitempty"`
}

type callView struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Input  string `json:"input,omitempty"`
}

type transcript struct {
	Session string      `json:"session"`
	Title   string      `json:"title,omitempty"`
	Status  string      `json:"status"`
	Turns   []turnShape `json:"turns"`
	// Earlier is how many turns come before these.
	Earlier int `json:"earlierTurns,omitempty"`
}

func sessionContext(c *call, raw json.RawMessage) (any, error) {
	var in contextInput
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if in.Detail == "" {
		in.Detail = "summary"
	}
	if err := one("detail", in.Detail, "summary", "digest", "full"); err != nil {
		return nil, err
	}
	limit := usualTurns
	if in.Limit != nil {
		limit = int(max(1, min(*in.Limit, maxTurns)))
	}
	sum, chat, err := c.find(in.Session)
	if err != nil {
		return nil, err
	}
	s, err := c.host.Session(c.ctx, sum.Info.ID)
	if err != nil {
		return nil, err
	}
	st := s.State()
	x := st.Chat(chat)
	if x == nil {
		return nil, sayf("that chat is gone")
	}
	turns, err := s.Turns(c.ctx, chat, x.Count, limit)
	if err != nil {
		return nil, err
	}
	if x.Active != nil {
		turns = append(turns[:len(turns):len(turns)], x.Active)
		turns = turns[max(0, len(turns)-limit):]
	}
	out := transcript{Session: c.lent.Session(&st.Info), Title: st.Info.Title, Status: statusOf(sum.Status), Turns: []turnShape{}}
	if x.Title != "" {
		out.Title = x.Title
	}
	all := x.Count
	if x.Active != nil {
		all++
	}
	size := 0
	for i := len(turns) - 1; i >= 0; i-- {
		t := shapeOf(turns[i], in.Detail)
		b, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxOutput && len(out.Turns) > 0 {
			break
		}
		out.Turns = append([]turnShape{t}, out.Turns...)
	}
	out.Earlier = all - len(out.Turns)
	return out, nil
}

// shapeOf makes a turn as short as was asked for.
func shapeOf(t *state.Turn, detail string) turnShape {
	room := maxReply
	if detail == "summary" {
		room = gist
	}
	s := turnShape{At: stamp(t.StartedAt), Status: string(t.Status), Message: clip(t.Message.Text, room), Reply: clip(t.Text(), room)}
	if t.Error != nil {
		s.Error = clip(t.Error.Message, gist)
	}
	if detail == "summary" {
		return s
	}
	for _, p := range t.Parts {
		if p.Kind != event.PartTool || len(s.Tools) == maxCalls {
			continue
		}
		v := callView{Name: p.Tool.Name, Status: string(p.Tool.Status)}
		if detail == "full" {
			v.Input = clip(string(p.Tool.Input), maxCallInput)
		}
		s.Tools = append(s.Tools, v)
	}
	return s
}
