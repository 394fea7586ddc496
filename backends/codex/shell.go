package codex

import "strings"

// shellLine takes the line out of the shell call that the program makes of a
// command: bash -lc 'LINE'. Other commands are lines as they are.
func shellLine(command string) string {
	words, ok := splitWords(command)
	if !ok || len(words) != 3 || words[1] != "-lc" && words[1] != "-c" {
		return command
	}
	switch words[0][strings.LastIndexByte(words[0], '/')+1:] {
	case "bash", "sh", "zsh", "dash":
		return words[2]
	}
	return command
}

// splitWords splits a quoted command as a shell would, without expanding
// anything; false when a quote is open.
func splitWords(s string) ([]string, bool) {
	var words []string
	var word strings.Builder
	var quote byte
	in := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\\' && (quote == 0 || i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0):
			if i++; i < len(s) && s[i] != '\n' {
				word.WriteByte(s[i])
			}
			in = true
		case quote == '"':
			if c == '"' {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, quote == 0
}
