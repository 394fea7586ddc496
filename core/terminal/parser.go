package terminal

import (
	"bytes"
	"unicode/utf8"
)

// token is a piece of output: text to show, or the content of a mark of the
// shell's, which is not shown. Exactly one of them is set.
type token struct {
	text []byte
	mark string // "7;file://…" or "133;…"
}

// parser takes output apart, wherever it was split. What it holds back, the
// beginning of a character or of an escape sequence, is bounded.
type parser struct {
	seq  sequence
	held []byte // of a sequence, or of a character
	long bool   // the sequence was too long to hold: it passes as it comes
	out  []token
}

// feed takes the next bytes and returns what is whole. The tokens are valid
// until the next call.
func (p *parser) feed(b []byte) []token {
	p.out = p.out[:0]
	for i := 0; i < len(b); {
		if p.seq.state == plain {
			n := bytes.IndexByte(b[i:], esc)
			if n < 0 {
				n = len(b) - i
			}
			if n > 0 {
				p.characters(b[i : i+n])
				i += n
				continue
			}
			p.flushHeld() // a character that was cut short by the ESC
		}
		i += p.inSequence(b[i])
	}
	return p.out
}

// inSequence takes one byte of a sequence; 0 when it is to be looked at again.
func (p *parser) inSequence(b byte) int {
	wasEnding := p.seq.state == ending
	belongs, over := p.seq.step(b)
	switch {
	case wasEnding && !belongs:
		// The string ended at its ESC, which begins another sequence.
		p.held = p.held[:max(0, len(p.held)-1)]
		p.endSequence(false)
		p.seq.state = escaped
		p.held = append(p.held, esc)
		return 0
	case !belongs:
		p.endSequence(false)
		return 0
	}
	p.held = append(p.held, b)
	switch {
	case over:
		p.endSequence(b == bell || wasEnding)
	case len(p.held) > maxSequence:
		p.long = true
		n := len(p.held)
		if p.seq.state == ending { // its ESC may yet begin another sequence
			n--
		}
		n = whole(p.held[:n])
		p.show(p.held[:n])
		p.held = append(p.held[:0], p.held[n:]...)
	}
	return 1
}

// endSequence hands on a sequence that is over. Only a string with its proper
// end can be a mark.
func (p *parser) endSequence(proper bool) {
	if body, ok := p.mark(); ok && proper {
		p.out = append(p.out, token{mark: body})
	} else {
		p.show(p.held)
	}
	p.held, p.long = p.held[:0], false
}

// mark is the content of the held sequence if it is one of the marks.
func (p *parser) mark() (string, bool) {
	body, ok := bytes.CutPrefix(p.held, []byte{esc, ']'})
	if !ok || p.long || !bytes.HasPrefix(body, []byte("7;")) && !bytes.HasPrefix(body, []byte("133;")) {
		return "", false
	}
	if s, ok := bytes.CutSuffix(body, []byte{esc, '\\'}); ok {
		return string(s), true
	}
	return string(bytes.TrimSuffix(body, []byte{bell})), true
}

// characters shows text without escape sequences and holds back the beginning
// of a character at its end.
func (p *parser) characters(b []byte) {
	if len(p.held) > 0 {
		b = append(p.held, b...)
		p.held = nil
	}
	cut := whole(b)
	p.show(b[:cut])
	p.held = append(p.held[:0], b[cut:]...)
}

// whole is how much of a text ends with a whole character.
func whole(b []byte) int {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// flushHeld shows what was held back of a character.
func (p *parser) flushHeld() {
	if p.seq.state == plain && len(p.held) > 0 {
		p.show(p.held)
		p.held = p.held[:0]
	}
}

// end shows all that was held back: nothing more comes.
func (p *parser) end() []token {
	p.out = p.out[:0]
	p.show(p.held)
	p.held, p.long, p.seq = p.held[:0], false, sequence{}
	return p.out
}

// show appends text; every byte that is no text becomes U+FFFD.
func (p *parser) show(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(p.out); n == 0 || p.out[n-1].text == nil {
		p.out = append(p.out, token{text: make([]byte, 0, len(b))})
	}
	t := &p.out[len(p.out)-1]
	for len(b) > 0 {
		valid := len(b)
		for i := 0; i < len(b); {
			if b[i] < utf8.RuneSelf {
				i++
				continue
			}
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				valid = i
				break
			}
			i += size
		}
		t.text = append(t.text, b[:valid]...)
		if valid == len(b) {
			return
		}
		t.text = append(t.text, "\uFFFD"...)
		b = b[valid+1:]
	}
}
