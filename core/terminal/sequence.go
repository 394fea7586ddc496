package terminal

// sequence follows the bytes of a terminal's output through escape sequences,
// one byte at a time. Its zero value stands between two sequences.
type sequence struct{ state seqState }

type seqState uint8

const (
	plain   seqState = iota // no sequence
	escaped                 // after ESC
	middle                  // after ESC and an intermediate byte
	control                 // in a control sequence: ESC [
	text                    // in a string: ESC ], ESC P, ESC X, ESC ^, ESC _
	ending                  // in a string, after an ESC that may end it
)

const (
	bell = 0x07
	can  = 0x18
	sub  = 0x1a
	esc  = 0x1b
)

// step tells of the next byte: whether it belongs to the sequence, and whether
// the sequence is over with it, or before it when it does not belong. In plain
// state only ESC belongs.
func (s *sequence) step(b byte) (belongs, over bool) {
	switch s.state {
	case plain:
		if b != esc {
			return false, false
		}
		s.state = escaped
		return true, false
	case ending:
		s.state = plain
		return b == '\\', true // any other byte: the string was given up at the ESC
	case text:
		switch b {
		case bell, can, sub:
			s.state = plain
			return true, true
		case esc:
			s.state = ending
		}
		return true, false
	}
	switch {
	case b == can || b == sub:
		s.state = plain
		return true, true
	case b < 0x20 && b != esc && s.state == control: // done at once, the sequence goes on
		return true, false
	case b < 0x20 || b > 0x7e: // given up
		s.state = plain
		return false, true
	}
	switch s.state {
	case escaped:
		switch b {
		case '[':
			s.state = control
			return true, false
		case ']', 'P', 'X', '^', '_':
			s.state = text
			return true, false
		}
		if b < 0x30 {
			s.state = middle
			return true, false
		}
	case middle:
		if b < 0x30 {
			return true, false
		}
	case control:
		if b < 0x40 {
			return true, false
		}
	}
	s.state = plain
	return true, true
}
