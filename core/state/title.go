package state

import (
	"strings"
	"unicode/utf8"
)

// maxTitle is the length of a title made from a prompt, in characters.
const maxTitle = 60

// TitleOf makes a title of a prompt: its first line that is not blank, cut at
// a word.
func TitleOf(prompt string) string {
	for line := range strings.SplitSeq(prompt, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) <= maxTitle {
			return line
		}
		cut := string([]rune(line)[:maxTitle-1])
		if i := strings.LastIndexByte(cut, ' '); i > maxTitle/2 {
			cut = cut[:i]
		}
		return strings.TrimRight(cut, " ") + "…"
	}
	return ""
}
