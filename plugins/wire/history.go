package wire

import (
	"encoding/json"
	"fmt"

	"github.com/polyhost/polyhost/core/agent"
)

// EncodeHistory encodes a page of turns. When the page is too large to send,
// texts, inputs and outputs are cut and edits left out: the agent's own files
// still have them.
func EncodeHistory(p agent.HistoryPage) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil || len(b) <= MaxPage {
		return b, err
	}
	small := agent.HistoryPage{Next: p.Next, File: p.File, Turns: make([]agent.PastTurn, len(p.Turns))}
	for i, t := range p.Turns {
		t.Prompt = short(t.Prompt)
		t.Attachments = nil
		frames := make([]agent.Frame, len(t.Frames))
		for j, f := range t.Frames {
			frames[j] = shorten(f)
		}
		t.Frames = frames
		small.Turns[i] = t
	}
	if b, err = json.Marshal(small); err == nil && len(b) > MaxPage {
		return nil, fmt.Errorf("a page of %d turns has %d bytes: ask for fewer", len(p.Turns), len(b))
	}
	return b, err
}

func shorten(f agent.Frame) agent.Frame {
	f.Text, f.Image = short(f.Text), nil
	if f.Tool != nil {
		t := *f.Tool
		t.Edits = nil
		if len(t.Input) > keepShort {
			t.Input = json.RawMessage(`{}`)
		}
		f.Tool = &t
	}
	if f.Result != nil {
		r := *f.Result
		r.Output, r.Edits = short(r.Output), nil
		f.Result = &r
	}
	return f
}

func short(s string) string {
	if len(s) <= keepShort {
		return s
	}
	return valid(s[:keepShort]) + "\n[the rest was too large]\n"
}
