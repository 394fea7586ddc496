package wiretest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// expand replaces ${name}. With asJSON a text is escaped as inside a JSON
// string, so that "${name}" holds any text; other values stand as JSON.
func (r *run) expand(s string, asJSON bool) (string, error) {
	var missing error
	out := reference.ReplaceAllStringFunc(s, func(ref string) string {
		name := ref[2 : len(ref)-1]
		v, ok := r.vars[name]
		if !ok {
			v, ok = repeated(name)
		}
		if !ok {
			missing = fmt.Errorf("variable %s is not set", ref)
			return ref
		}
		str, isStr := v.(string)
		if isStr && !asJSON {
			return str
		}
		b, err := json.Marshal(v)
		if err != nil {
			missing = fmt.Errorf("variable %s: %w", ref, err)
		}
		if isStr {
			b = b[1 : len(b)-1]
		}
		return string(b)
	})
	return out, missing
}

// repeated is the value of "repeat TEXT COUNT".
func repeated(name string) (string, bool) {
	w := strings.Fields(name)
	if len(w) != 3 || w[0] != "repeat" {
		return "", false
	}
	n, err := strconv.Atoi(w[2])
	if err != nil || n < 0 || n*len(w[1]) > maxFrame {
		return "", false
	}
	return strings.Repeat(w[1], n), true
}

// Endpoints is what the gateway says of its fronts: front, then field.
type Endpoints map[string]map[string]string

// setEndpoints makes the fields of every front variables: ${snowpea.url}, and
// those of the script's own front ${URL} and so on.
func (r *run) setEndpoints(e Endpoints) {
	r.endpoints = e
	for front, fields := range e {
		for field, value := range fields {
			r.vars[front+"."+field] = value
			if front == r.script.front {
				r.vars[strings.ToUpper(field)] = value
			}
		}
	}
}

// frontAt is the front whose endpoint has the scheme, host and port of a URL, or "".
func (r *run) frontAt(target string) string {
	at, err := url.Parse(target)
	if err != nil {
		return ""
	}
	for front, fields := range r.endpoints {
		if u, err := url.Parse(fields["url"]); err == nil && u.Scheme == at.Scheme && u.Host == at.Host {
			return front
		}
	}
	return ""
}

// resolve turns the target of a connecting step into a URL: a whole URL stands
// for itself; "front" or "front/path?query" and "/path?query" for the endpoint
// of that or the script's front, with the path replaced.
func (r *run) resolve(word, scheme string) (string, error) {
	if strings.Contains(word, "://") {
		return word, nil
	}
	front, rest := word, ""
	if i := strings.IndexAny(word, "/?"); i >= 0 {
		front, rest = word[:i], word[i:]
	}
	field := "url"
	if f, which, ok := strings.Cut(front, "."); ok {
		front, field = f, which // bae.admin_url
	}
	if front == "" {
		front = r.script.front
	}
	base, ok := r.endpoints[front][field]
	if !ok {
		return "", fmt.Errorf("front %q has no %s", front, field)
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	if scheme == "http" {
		u.Scheme = strings.Replace(u.Scheme, "ws", "http", 1)
	} else {
		u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	}
	out := u.String()
	switch {
	case strings.HasPrefix(rest, "/"):
		out = u.Scheme + "://" + u.Host + rest
	case rest != "":
		out += rest
	}
	return out, nil
}
