package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The names of places on a tape.
const (
	projectName = "/project"
	homeName    = "/home/user"
)

// uuids are what drivers make up.
var uuids = regexp.MustCompile(uuid)

const uuid = `\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`

// ids are what programs make up: UUIDs, a prefix and random letters, digests.
var ids = regexp.MustCompile(uuid + `|\b(?:[a-z]+[_-])+[0-9a-zA-Z]{20,}\b|\b[0-9a-f]{16,}\b`)

// chance are further texts that differ in each run, and what stands for them.
var chance = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:1"},
	{regexp.MustCompile(`[^/" ]*polyhost-record-\d+[^/" ]*`), "home"},
	{regexp.MustCompile(`Chunk ID: [0-9a-f]+`), "Chunk ID: 1"},
	{regexp.MustCompile(`Wall time: [\d.]+`), "Wall time: 1"},
	{regexp.MustCompile(`/tmp/polyhost-([a-z]+)-\d+`), "/tmp/polyhost-$1"},
	{regexp.MustCompile(`POLYHOST_COMMAND=\\?"[a-z0-9]+\\?"`), "POLYHOST_COMMAND=mark"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d([.-]\d+)?Z`), "2026-01-01T00:00:00Z"},
}

// longText is the longest text in bytes that a tape keeps: what is longer is
// the CLI's own prose.
const longText = 300

// moment are the names of members whose numbers are times.
var moment = regexp.MustCompile(`(?i)(duration|timestamp|elapsed|ttft|latency|AtMs|_at|At|_ms|pid|processid)$`)

// scrub makes a recording fit to be kept: ids and places get names, times
// become 1, what drop names is left out, and long texts are cut.
func scrub(recording []byte, places map[string]string, drop []string) ([]byte, error) {
	named := &names{prefix: "id"}
	clean := func(s string) string {
		for _, place := range slices.Backward(slices.SortedFunc(maps.Keys(places), func(a, b string) int { return len(a) - len(b) })) {
			s = strings.ReplaceAll(s, place, places[place])
		}
		for _, c := range chance {
			s = c.pattern.ReplaceAllString(s, c.name)
		}
		return named.replace(s, ids)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(recording) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		v, err := ordered(dec, "", func(name string, v any) (any, bool) {
			if slices.Contains(drop, name) {
				return nil, false
			}
			switch v := v.(type) {
			case string:
				return shorten(clean(v)), true
			case json.Number:
				if moment.MatchString(name) {
					return json.Number("1"), true
				}
			}
			return v, true
		})
		if err != nil {
			return nil, fmt.Errorf("the recording: %w", err)
		}
		out.Write(v)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

func shorten(s string) string {
	if len(s) <= longText {
		return s
	}
	return strings.ToValidUTF8(s[:longText], "") + "…"
}

// ordered writes the next value of dec with its members in their order; each
// single value, and each member by its name, passes through keep.
func ordered(dec *json.Decoder, name string, keep func(string, any) (any, bool)) ([]byte, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	switch d, _ := t.(json.Delim); d {
	case '{', '[':
		out.WriteByte(byte(d))
		first := true
		for dec.More() {
			member := name
			if d == '{' {
				key, err := dec.Token()
				if err != nil {
					return nil, err
				}
				member = key.(string)
			}
			v, err := ordered(dec, member, keep)
			if err != nil {
				return nil, err
			}
			if _, wanted := keep(member, nil); !wanted {
				continue
			}
			if !first {
				out.WriteByte(',')
			}
			first = false
			if d == '{' {
				out.Write(encoded(member))
				out.WriteByte(':')
			}
			out.Write(v)
		}
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
		out.WriteByte(byte(d + 2)) // the closing one
		return out.Bytes(), nil
	}
	v, _ := keep(name, t)
	return encoded(v), nil
}

func encoded(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil || !utf8.Valid(b.Bytes()) {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
