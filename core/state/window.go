package state

import "slices"

// Trim drops the oldest turns beyond the limits. It never writes into an
// array that a frozen state shares.
func (c *Chat) Trim(l Limits) {
	drop := max(0, len(c.Turns)-l.Turns)
	bytes := 0
	for i := len(c.Turns) - 1; i > drop; i-- {
		if bytes += c.Turns[i].size(); bytes > l.Bytes {
			drop = i + 1
		}
	}
	if drop >= len(c.Turns) && len(c.Turns) > 0 {
		drop = len(c.Turns) - 1 // the newest always stays
	}
	if drop > 0 {
		c.Turns = slices.Clone(c.Turns[drop:])
	}
}

// size is about what a turn weighs in memory.
func (t *Turn) size() int {
	n := 512 + len(t.Message.Text) + len(t.Message.Rich)
	for _, a := range t.Message.Attachments {
		n += len(a.Data) + len(a.Text)
	}
	for _, p := range t.Parts {
		n += 256 + p.Text.Len()
		if p.Tool != nil {
			n += 256 + len(p.Tool.Input) + p.Tool.Output.Len()
			for _, e := range p.Tool.Edits {
				n += len(e.Patch)
				if e.Before != nil {
					n += len(*e.Before)
				}
				if e.After != nil {
					n += len(*e.After)
				}
			}
		}
	}
	return n
}
