package policy

import (
	"slices"
	"strings"
)

// Compound reports whether a shell line does more than run one program with
// plain words: separators, pipes, redirections, substitutions, several lines.
func Compound(line string) bool {
	return strings.ContainsAny(line, ";&|<>\n\r`") || strings.Contains(line, "$(") || strings.Contains(line, "${")
}

var (
	readers = []string{"cat", "df", "du", "echo", "file", "find", "grep", "head", "ls", "pwd", "pytest",
		"rg", "stat", "tail", "tree", "wc", "which"}
	gitReaders   = []string{"blame", "branch", "diff", "log", "ls-files", "show", "status"}
	findWriters  = []string{"-delete", "-fls"}
	findPrefixes = []string{"-exec", "-ok", "-fprint"}
)

// ReadOnlyCommand reports whether a shell line only reads: every piece of it,
// split at ; && || and |, is a known reader, and nothing redirects or
// substitutes. When in doubt it is not.
func ReadOnlyCommand(line string) bool {
	if strings.ContainsAny(line, "<>`\n\r") || strings.Contains(line, "$(") || strings.Contains(line, "${") {
		return false
	}
	line = strings.NewReplacer("&&", ";", "||", ";", "|", ";").Replace(line)
	if strings.Contains(line, "&") {
		return false
	}
	for piece := range strings.SplitSeq(line, ";") {
		if !readOnlyPiece(strings.Fields(piece)) {
			return false
		}
	}
	return true
}

func readOnlyPiece(words []string) bool {
	if len(words) > 2 && words[0] == "uv" && words[1] == "run" {
		words = words[2:]
	}
	if len(words) == 0 {
		return false
	}
	args := words[1:]
	switch words[0] {
	case "env":
		return len(args) == 0
	case "find":
		return !slices.ContainsFunc(args, func(a string) bool {
			return slices.Contains(findWriters, a) ||
				slices.ContainsFunc(findPrefixes, func(p string) bool { return strings.HasPrefix(a, p) })
		})
	case "git":
		return len(args) > 0 && slices.Contains(gitReaders, args[0]) && readOnlyGit(args)
	case "npm", "pnpm", "yarn":
		return packageReader(words[0], args)
	}
	return slices.Contains(readers, words[0])
}

func readOnlyGit(args []string) bool {
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "--output") || strings.HasPrefix(a, "--ext-diff") {
			return false
		}
		if args[0] == "branch" && (!strings.HasPrefix(a, "-") || slices.ContainsFunc(
			[]string{"-d", "-D", "-m", "-M", "-c", "-C", "-f", "-u", "--delete", "--move", "--copy", "--force", "--set-upstream", "--unset-upstream", "--edit-description"},
			func(f string) bool {
				return a == f || strings.HasPrefix(a, f+"=") || f == "--set-upstream" && strings.HasPrefix(a, f)
			})) {
			return false
		}
	}
	return true
}

func packageReader(program string, args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case "test":
		return true
	case "run":
		return len(args) > 1 && args[1] == "test"
	case "ls":
		return program != "yarn"
	case "list":
		return program == "yarn"
	}
	return false
}
