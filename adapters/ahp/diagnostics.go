package ahp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// proxyVariables are what says which proxy programs use.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"}

type networkEndpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// networkInfo says how this host reaches the network, and what it and its
// agents need to reach.
func (c *conn) networkInfo(context.Context, *jsonrpc.Request) (any, error) {
	out := struct {
		Version       string            `json:"version"`
		OS            string            `json:"os"`
		Arch          string            `json:"arch"`
		ProxySettings map[string]string `json:"proxySettings"`
		ProxyEnv      map[string]string `json:"proxyEnv"`
		Endpoints     []networkEndpoint `json:"endpoints"`
	}{c.front.version, runtime.GOOS, runtime.GOARCH, map[string]string{}, map[string]string{}, []networkEndpoint{}}
	for _, name := range proxyVariables {
		if value := os.Getenv(name); value != "" {
			out.ProxyEnv[name] = withoutSecret(value)
		}
	}
	seen := map[string]bool{}
	for _, a := range c.front.host.Agents() {
		for _, r := range a.Info.Resources {
			if isWeb(r.ID) && !seen[r.ID] {
				seen[r.ID] = true
				out.Endpoints = append(out.Endpoints, networkEndpoint{r.Name, r.ID})
			}
		}
	}
	out.Endpoints = append(out.Endpoints, networkEndpoint{"GitHub API", forge.GitHub})
	return out, nil
}

// withoutSecret leaves the name and password out of a proxy's address, which
// may lack a scheme.
func withoutSecret(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		scheme, rest = "", value
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = rest[at+1:]
	}
	if ok {
		return scheme + "://" + rest
	}
	return rest
}

func isWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

type dnsResult struct {
	Address    string  `json:"address,omitempty"`
	DurationMs float64 `json:"durationMs"`
	Error      string  `json:"error,omitempty"`
}

type fetchResult struct {
	URL           string    `json:"url"`
	ProxyURL      string    `json:"proxyUrl,omitempty"`
	DNSIPv4       dnsResult `json:"dnsIpv4"`
	DNSIPv6       dnsResult `json:"dnsIpv6"`
	StatusCode    int       `json:"statusCode,omitempty"`
	StatusMessage string    `json:"statusMessage,omitempty"`
	Body          *string   `json:"body,omitempty"`
	DurationMs    float64   `json:"durationMs"`
	Error         string    `json:"error,omitempty"`
}

// diagnose looks one address up and fetches it, and says how that went: what
// fails is the answer, not an error.
func (c *conn) diagnose(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URL string `json:"url" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	u, err := url.Parse(p.URL)
	if err != nil || !isWeb(p.URL) || len(p.URL) > maxDiagnosedURL || u.User != nil {
		return nil, invalid("url: want http:// or https:// and a host, of at most %d bytes and without a password", maxDiagnosedURL)
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseWithin)
	defer cancel()
	out := fetchResult{URL: p.URL, DNSIPv4: lookUp(ctx, "ip4", u.Hostname()), DNSIPv6: lookUp(ctx, "ip6", u.Hostname())}
	fetch(ctx, p.URL, &out)
	return out, nil
}

func lookUp(ctx context.Context, network, name string) dnsResult {
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	begin := time.Now()
	ips, err := net.DefaultResolver.LookupIP(ctx, network, name)
	out := dnsResult{DurationMs: ms(begin)}
	if err != nil {
		out.Error = err.Error()
	} else if len(ips) > 0 {
		out.Address = ips[0].String()
	}
	return out
}

func fetch(ctx context.Context, address string, out *fetchResult) {
	begin := time.Now()
	defer func() { out.DurationMs = ms(begin) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		out.Error = err.Error()
		return
	}
	if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy != nil {
		out.ProxyURL = withoutSecret(proxy.String())
	}
	// A client of its own: a connection that was open already would tell nothing.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		out.Error = err.Error()
		return
	}
	defer resp.Body.Close()
	out.StatusCode = resp.StatusCode
	out.StatusMessage = http.StatusText(resp.StatusCode)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDiagnosedBody))
	body := strings.ToValidUTF8(string(text), "�")
	out.Body = &body
	if err != nil {
		out.Error = err.Error()
	}
}

func ms(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
