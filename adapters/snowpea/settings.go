package snowpea

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
)

//go:embed settings.json
var settingsFile []byte

// defaults are the settings documents without a file.
var defaults = func() (d struct{ Global, Project document }) {
	if err := json.Unmarshal(settingsFile, &d); err != nil {
		panic(fmt.Sprintf("snowpea: settings.json: %v", err))
	}
	return d
}()

// document is a settings document.
type document = map[string]any

// settings are the protocol's settings: one file in the home, and one in each
// project that has some.
type settings struct {
	home string

	mu     sync.Mutex // one writer at a time
	global document   // over the defaults; nil: not read yet
	stamp  fileStamp  // of the file it was read from
}

type fileStamp struct {
	size    int64
	modTime int64
}

func newSettings(home string) *settings { return &settings{home: home} }

func (s *settings) path() string { return filepath.Join(s.home, "settings.json") }

func projectPath(dir string) string { return filepath.Join(dir, ".snowpea", "settings.json") }

// effective is the global document over the defaults, read again when the file
// has changed.
func (s *settings) effective() document {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effectiveLocked()
}

func (s *settings) effectiveLocked() document {
	now := stampOf(s.path())
	if s.global == nil || now != s.stamp {
		s.global, s.stamp = overlay(defaults.Global, readDocument(s.path())), now
	}
	return s.global
}

// reload reads the file again and names the sections that changed.
func (s *settings) reload() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.global
	s.stamp = fileStamp{size: -1}
	return changedSections(old, s.effectiveLocked())
}

// project is a project's document over its defaults.
func (s *settings) project(dir string) document {
	return overlay(defaults.Project, readDocument(projectPath(dir)))
}

// projectMode is the mode a project's sessions start in, "" for none.
func (s *settings) projectMode(dir string) string {
	mode, _ := s.project(dir)["defaultMode"].(string)
	if slices.Contains(modes, mode) {
		return mode
	}
	return ""
}

// integer and word read one value of the global document.
func (s *settings) integer(section, key string, otherwise int) int {
	if m, ok := s.effective()[section].(map[string]any); ok {
		if n, ok := m[key].(float64); ok {
			return int(min(n, math.MaxInt32))
		}
	}
	return otherwise
}

func (s *settings) word(section, key, otherwise string) string {
	if m, ok := s.effective()[section].(map[string]any); ok {
		if w, ok := m[key].(string); ok {
			return w
		}
	}
	return otherwise
}

// set merges a patch into a document and writes it. It returns the whole
// document and the sections that changed.
func (s *settings) set(project string, patch document) (document, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, base := s.path(), defaults.Global
	if project != "" {
		path, base = projectPath(project), defaults.Project
	}
	if place := masked(patch, ""); place != "" {
		return nil, nil, invalid("patch", "%s is the mask of a secret, not a value", place)
	}
	file := readDocument(path)
	old := overlay(base, file)
	next := patched(file, patch)
	whole := overlay(base, next)
	if err := fitsDefaults(whole, base, ""); err != nil {
		return nil, nil, err
	}
	changed := changedSections(old, whole)
	if len(changed) > 0 {
		if err := s.write(path, next); err != nil {
			return nil, nil, err
		}
	}
	if project == "" {
		s.global, s.stamp = whole, stampOf(path)
	}
	return whole, changed, nil
}

func (s *settings) write(path string, d document) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if len(b) > maxSettings {
		return invalid("patch", "the settings would have %d bytes, at most %d are kept", len(b), maxSettings)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return invalid("workdir", "%s cannot be made", filepath.Dir(path))
	}
	if err := writeFile(path, append(b, '\n')); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return invalid("workdir", "%s cannot be written", path)
		}
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

func stampOf(path string) fileStamp {
	st, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{st.Size(), st.ModTime().UnixNano()}
}

// readDocument reads a settings file. One that is missing, broken or too large
// reads as empty.
func readDocument(path string) document {
	f, err := os.Open(path)
	if err != nil {
		return document{}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	var d document
	if err != nil || len(b) > maxSettings || json.NewDecoder(bytes.NewReader(b)).Decode(&d) != nil || d == nil {
		return document{}
	}
	return d
}

// overlay puts a file over the defaults: objects key by key, everything else
// whole. A null in the file is as good as nothing.
func overlay(base, file document) document { return merge(base, file, false) }

// patched applies a patch to a file: a null takes a key away.
func patched(file, patch document) document { return merge(file, patch, true) }

func merge(base, over document, nullDeletes bool) document {
	out := maps.Clone(base)
	if out == nil {
		out = document{}
	}
	for k, v := range over {
		sub, object := v.(map[string]any)
		old, _ := out[k].(map[string]any)
		switch {
		case v == nil && nullDeletes:
			delete(out, k)
		case v == nil:
		case object:
			out[k] = merge(old, sub, nullDeletes)
		default:
			out[k] = v
		}
	}
	return out
}

// words are the settings that take one of a few words.
var words = map[string][]string{
	"agent.busy":   {"steer", "queue"},
	"agent.effort": tiers,
	"defaultMode":  modes,
}

var modes = []string{"plan", "accept", "auto"}

// fitsDefaults holds a document against the defaults: a value must be of the kind its
// default is of. Keys nobody knows are kept.
func fitsDefaults(d, base document, path string) error {
	for _, k := range slices.Sorted(maps.Keys(d)) {
		v, at := d[k], k
		if path != "" {
			at = path + "." + k
		}
		was, known := base[k]
		if !known || v == nil {
			continue
		}
		if was != nil && kindOf(v) != kindOf(was) {
			return invalid("patch."+at, "must be %s, not %s", kindOf(was), kindOf(v))
		}
		if allowed := words[at]; allowed != nil {
			if w, ok := v.(string); !ok || !slices.Contains(allowed, w) {
				return invalid("patch."+at, "must be one of %s", strings.Join(allowed, ", "))
			}
		}
		if n, ok := v.(float64); ok && was != nil && (n < 0 || n != math.Trunc(n)) {
			return invalid("patch."+at, "must be a whole number of zero or more")
		}
		sub, object := v.(map[string]any)
		if subBase, ok := was.(map[string]any); ok && object {
			if err := fitsDefaults(sub, subBase, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// mask stands for a secret that is set.
const mask = "***"

var secretFields = []string{"api_key", "apiKey", "token", "refresh_token", "password"}

// hide copies a value with its secrets masked.
func hide(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if slices.Contains(secretFields, k) && e != nil {
				out[k] = mask
			} else {
				out[k] = hide(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = hide(e)
		}
		return out
	}
	return v
}

// masked finds a secret whose value is the mask, "" for none.
func masked(v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+k, ".")
			if v[k] == mask && slices.Contains(secretFields, k) {
				return at
			}
			if p := masked(v[k], at); p != "" {
				return p
			}
		}
	case []any:
		for i, e := range v {
			if p := masked(e, fmt.Sprintf("%s[%d]", path, i)); p != "" {
				return p
			}
		}
	}
	return ""
}

func changedSections(old, now document) []string {
	out := []string{}
	keys := maps.Clone(old)
	if keys == nil {
		keys = document{}
	}
	maps.Copy(keys, now)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !reflect.DeepEqual(old[k], now[k]) {
			out = append(out, k)
		}
	}
	return out
}
