package terminal

import "strings"

// Plain makes plain text of output, piece by piece: without escape sequences,
// and with lines ended by a line feed alone. Its zero value begins.
type Plain struct {
	seq sequence
	cr  bool // a carriage return was the last
}

// Text is the plain text of the next piece.
func (p *Plain) Text(piece string) string {
	var b strings.Builder
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		belongs, over := p.seq.step(c)
		if over && !belongs { // the sequence was given up
			belongs, _ = p.seq.step(c)
		}
		if belongs {
			continue
		}
		if p.cr && c != '\n' && c != '\r' {
			b.WriteByte('\n') // a line that was written over
		}
		p.cr = c == '\r'
		if c == '\n' || c == '\t' || c >= ' ' && c != 0x7f {
			b.WriteByte(c)
		}
	}
	return b.String()
}
