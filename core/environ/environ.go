// Package environ makes the environment of programs that the gateway starts: an
// allow-list of its own variables, so that nothing of it is given away that was
// not meant to be. It knows no program.
package environ

import (
	"os"
	"slices"
	"strings"
)

// usual are the variables of this process that every program gets: where
// things are, which language, how to reach the network. Names that end in *
// are prefixes.
var usual = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "TMPDIR", "TZ", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_*", "NODE_EXTRA_CA_CERTS", "SSH_AUTH_SOCK",
}

// PassVar names, separated by commas, further variables that programs get: the
// gateway's configuration sets it.
const PassVar = "POLYHOST_PASS_ENV"

// For is what a program gets: the usual variables of this process,
// those that inherit and PassVar name, and then the settings, which win.
func For(inherit, settings []string) []string {
	named := slices.Concat(usual, inherit, strings.Split(os.Getenv(PassVar), ","))
	set := map[string]bool{}
	for _, v := range settings {
		name, _, _ := strings.Cut(v, "=")
		set[name] = true
	}
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !set[name] && matches(named, name) {
			env = append(env, v)
		}
	}
	return append(env, settings...)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && prefix != "" {
			return strings.HasPrefix(name, prefix)
		}
		return p == name
	})
}
