package cli

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tail keeps the end of what was written to it.
type tail struct {
	redact *redactor
	mu     sync.Mutex
	b      []byte
	cut    bool
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
		t.cut = true
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	text := string(t.b)
	if t.cut { // half a line could be half a secret
		_, text, _ = strings.Cut(text, "\n")
	}
	t.mu.Unlock()
	return strings.ToValidUTF8(escapes.ReplaceAllString(t.redact.clean(text), ""), "\ufffd")
}

// escapes are the colours of a terminal.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// secretShapes are tokens that are recognised wherever they stand.
var secretShapes = regexp.MustCompile(`(?i)(\b(?:sk|pk|ghp|gho|xox[a-z]|AIza)[-_]?[A-Za-z0-9_\-]{12,}|\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=\-]{8,})`)

// secretNames are parts of the names of variables that hold secrets.
var secretNames = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"}

const hidden = "[hidden]"

// redactor takes secrets out of texts.
type redactor struct{ known *strings.Replacer }

func newRedactor(env, secrets []string) *redactor {
	var all []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(strings.ToUpper(name), part) }) && name != "SSH_AUTH_SOCK" {
			secrets = append(secrets, value)
		}
	}
	for _, s := range secrets {
		if len(s) >= minSecret {
			all = append(all, s, hidden)
		}
	}
	return &redactor{known: strings.NewReplacer(all...)}
}

func (r *redactor) clean(text string) string {
	return secretShapes.ReplaceAllString(r.known.Replace(text), hidden)
}
