package supervisor

import (
	"slices"
	"strings"
)

// usual are the variables of the gateway's environment that every plugin
// gets: where things are, which language, how to reach the network. Tokens are
// not among them.
var usual = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE", "SSH_AUTH_SOCK",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// environment picks the usual variables, the locale's, and the named ones; a
// name that ends in * is a prefix.
func environment(all, named []string) []string {
	var out []string
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(usual, name) || strings.HasPrefix(name, "LC_") || slices.ContainsFunc(named, func(n string) bool { return matches(n, name) }) {
			out = append(out, v)
		}
	}
	return out
}

func matches(pattern, name string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && prefix != "" && strings.HasPrefix(name, prefix) || pattern == name
}
