package mcpjson

import "net/url"

// Bare is the address of an MCP server without what may be secret in it, or ""
// for what is no address.
func Bare(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
