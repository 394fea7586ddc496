package ahp

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/users"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// The host's settings, on the root channel. Those that editors push are kept
// and shown to all clients; what they ask for is the editors' own business. Two
// belong to the connection that pushed them. Two bound what the host keeps, one
// says whether agents are offered the host's own tools, and two where the words of
// commits and pull requests come from.

//go:embed editor_settings.json
var editorSettings []byte

const (
	keyShell  = "defaultShell"
	keyTrust  = "workspaceTrust"
	keyQueue  = "clientQueueBytes"
	keyReplay = "replayBytes"

	keyWords     = "changeWords"
	keyWordsTime = "changeWordsTimeoutMs"
	keyTools     = "hostTools"

	settingsKey = "root-config"
)

// rootProperty declares one setting.
type rootProperty struct {
	Type        string                  `json:"type"`
	Title       string                  `json:"title"`
	Description string                  `json:"description,omitempty"`
	Default     json.RawMessage         `json:"default,omitempty"`
	Enum        []string                `json:"enum,omitempty"`
	ReadOnly    bool                    `json:"readOnly,omitempty"`
	Items       *rootProperty           `json:"items,omitempty"`
	Properties  map[string]rootProperty `json:"properties,omitempty"`
	Required    []string                `json:"required,omitempty"`
}

type rootSchema struct {
	Type       string                  `json:"type"`
	Properties map[string]rootProperty `json:"properties"`
}

type rootConfig struct {
	Schema rootSchema `json:"schema"`
	Values values     `json:"values"`
}

// values are settings by key.
type values map[string]json.RawMessage

var declared = declareSettings()

func declareSettings() rootSchema {
	s := rootSchema{Type: "object"}
	if err := json.Unmarshal(editorSettings, &s.Properties); err != nil {
		panic("ahp: editor_settings.json: " + err.Error()) // embedded
	}
	s.Properties[keyShell] = rootProperty{Type: "string", Title: "Shell", Description: "The absolute path of the shell of new terminals"}
	s.Properties[keyTrust] = rootProperty{Type: "object", Title: "Trusted folders", ReadOnly: true, Required: []string{"enabled", "trustedUris"},
		Properties: map[string]rootProperty{"enabled": {Type: "boolean", Title: "Enabled"},
			"trustedUris": {Type: "array", Title: "Folders", Items: &rootProperty{Type: "string", Title: "Folder"}}}}
	s.Properties[keyQueue] = rootProperty{Type: "number", Title: "Waiting for a client", Default: encode(queueBytes),
		Description: "How many bytes may wait for one client before it is closed"}
	s.Properties[keyReplay] = rootProperty{Type: "number", Title: "Kept for replay", Default: encode(journalBytes),
		Description: "How many bytes of actions are kept for clients that come back"}
	s.Properties[keyTools] = rootProperty{Type: "boolean", Title: "The host's tools", Default: encode(true),
		Description: "Whether agents are offered the host's own tools, such as those that look at other sessions"}
	s.Properties[keyWords] = rootProperty{Type: "object", Title: "Words of changes", Required: []string{"mode"},
		Description: "Where the words of commits and pull requests come from that nobody gives any for",
		Default:     encode(wording{Mode: wordsTitle}),
		Properties: map[string]rootProperty{
			"mode":     {Type: "string", Title: "From", Enum: []string{wordsTitle, wordsForced, wordsModel, wordsAgent}},
			"provider": {Type: "string", Title: "Provider", Description: "Whose model is asked, in the mode model"},
			"model":    {Type: "string", Title: "Model", Description: "The model that is asked, in the mode model"}}}
	s.Properties[keyWordsTime] = rootProperty{Type: "number", Title: "Time for words", Default: encode(wordsWithin.Milliseconds()),
		Description: "How long a model or an agent may take to find them, in milliseconds; 0 is no limit"}
	return s
}

// ofConnection reports whether a setting is kept on the connection.
func ofConnection(key string) bool { return key == keyShell || key == keyTrust }

// guarded are the settings that need a grant of who signed in.
var guarded = map[string]users.Grant{keyTrust: users.TrustPush, keyQueue: users.ConfigWrite, keyReplay: users.ConfigWrite}

// check judges a value of a setting.
func (s *rootSchema) check(key string, raw json.RawMessage) error {
	p, ok := s.Properties[key]
	switch {
	case !ok:
		return errors.New("there is no such setting")
	case len(raw) > maxSetting:
		return fmt.Errorf("longer than %d bytes", maxSetting)
	}
	if err := p.check(raw); err != nil {
		return err
	}
	switch key {
	case keyShell:
		var path string
		_ = json.Unmarshal(raw, &path) // it is a string
		if path != "" && !filepath.IsAbs(path) {
			return errors.New("want an absolute path")
		}
	case keyQueue, keyReplay:
		if n, ok := bytesOf(raw); !ok || n < leastBytes || n > mostBytes {
			return fmt.Errorf("want %d to %d", leastBytes, mostBytes)
		}
	case keyWords:
		return checkWording(raw)
	case keyWordsTime:
		if n, ok := bytesOf(raw); !ok || n < 0 || int64(n) > mostWords.Milliseconds() {
			return fmt.Errorf("want 0 to %d", mostWords.Milliseconds())
		}
	}
	return nil
}

func (p *rootProperty) check(raw json.RawMessage) error {
	if kind := jsonx.Kind(raw); kind != p.Type {
		return fmt.Errorf("want %s, got %s", p.Type, kind)
	}
	if len(p.Enum) > 0 {
		var word string
		if err := json.Unmarshal(raw, &word); err != nil || !slices.Contains(p.Enum, word) {
			return errors.New("want one of " + strings.Join(p.Enum, ", "))
		}
	}
	if p.Items != nil {
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is an array
		for _, item := range items {
			if err := p.Items.check(item); err != nil {
				return err
			}
		}
	}
	if len(p.Required) > 0 {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields) // it is an object
		for _, key := range p.Required {
			field := p.Properties[key]
			if err := field.check(fields[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

func bytesOf(raw json.RawMessage) (int, bool) {
	var n int
	return n, json.Unmarshal(raw, &n) == nil
}

// settings are the values that all clients share.
type settings struct {
	mu     sync.Mutex // held over a change and its storing; taken before the others
	values values     // replaced, never written to
}

// loadSettings reads what was pushed to an earlier run.
func (f *Front) loadSettings(ctx context.Context) error {
	f.settings.values = values{}
	b, err := f.host.KV(front).Get(ctx, settingsKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	var stored values
	if err == nil {
		err = json.Unmarshal(b, &stored)
	}
	if err != nil {
		return fmt.Errorf("stored settings: %w", err)
	}
	for key, raw := range stored {
		if declared.check(key, raw) == nil { // another version may have declared others
			f.settings.values[key] = raw
		}
	}
	f.applySettings(f.settings.values)
	return nil
}

// applySettings does what the host's own settings say.
func (f *Front) applySettings(v values) {
	replay, queue := journalBytes, queueBytes
	if n, ok := bytesOf(v[keyReplay]); ok {
		replay = n
	}
	if n, ok := bytesOf(v[keyQueue]); ok {
		queue = n
	}
	f.journal.bound(replay, queue)
	f.offerTools(string(v[keyTools]) != "false")
}

// configFor is the root's configuration as a connection has it.
func (c *conn) configFor(shared rootConfig) rootConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.settings) > 0 {
		shared.Values = maps.Clone(shared.Values)
		maps.Copy(shared.Values, c.settings)
	}
	return shared
}

// shell is the shell that the connection's client prefers, or "".
func (c *conn) shell() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var path string
	_ = json.Unmarshal(c.settings[keyShell], &path) // it was checked; absent: none
	return path
}

// configureRoot takes what a client pushes of the settings. Each that cannot be
// is refused by name, and the others are taken. What a replacement leaves out
// goes, but for what its sender may not push.
func (a *action) configureRoot(ctx context.Context) error {
	var p struct {
		Config  values `json:"config" jsonx:"required"`
		Replace bool   `json:"replace"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	shared, own, bad := values{}, values{}, values{}
	var why, kept []string
	for key, grant := range guarded {
		if (p.Replace || p.Config[key] != nil) && !a.conn.may(grant) {
			kept = append(kept, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Config)) {
		raw := p.Config[key]
		err := declared.check(key, raw)
		if err == nil && key == keyWords {
			err = a.conn.front.checkServed(raw)
		}
		if err == nil && slices.Contains(kept, key) {
			err = fmt.Errorf("needs the grant %s", guarded[key])
		}
		switch {
		case err != nil:
			bad[key] = raw
			why = append(why, fmt.Sprintf("%s: %v", clip(key), err))
		case ofConnection(key):
			own[key] = raw
		default:
			shared[key] = raw
		}
	}
	if len(p.Config) > 0 && len(bad) == len(p.Config) {
		return settingsRefusal(why)
	}
	if err := a.pushSettings(ctx, shared, own, p.Replace, kept); err != nil {
		return err
	}
	if len(bad) > 0 {
		a.conn.refuse(a.uri, encode(settingsAction{"root/configChanged", bad, false}), &a.origin, refusalText(settingsRefusal(why)))
	}
	return nil
}

func settingsRefusal(why []string) error {
	text := strings.Join(why, "; ")
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "…"
	}
	return refusal("this host does not take " + text)
}

type settingsAction struct {
	Type    string `json:"type"`
	Config  values `json:"config"`
	Replace bool   `json:"replace,omitempty"`
}

// pushSettings keeps settings, and says what changed: to everyone what is
// shared, and to the client what is its own. A replacement keeps what is kept.
func (a *action) pushSettings(ctx context.Context, shared, own values, replace bool, kept []string) error {
	f := a.conn.front
	f.settings.mu.Lock()
	defer f.settings.mu.Unlock()
	if replace {
		a.conn.mu.Lock()
		for _, key := range kept {
			if raw, ok := f.settings.values[key]; ok {
				shared[key] = raw
			}
			if raw, ok := a.conn.settings[key]; ok {
				own[key] = raw
			}
		}
		a.conn.mu.Unlock()
	}
	now := values{}
	if !replace {
		maps.Copy(now, f.settings.values)
	}
	maps.Copy(now, shared)
	changed := !maps.EqualFunc(now, f.settings.values, sameValue)
	if changed {
		b := encode(now)
		if len(b) > maxSettings {
			return refusal(fmt.Sprintf("this host keeps %d bytes of settings at most", maxSettings))
		}
		// It is stored even if its client leaves now, and then it has to count.
		if err := f.host.KV(front).Set(context.WithoutCancel(ctx), settingsKey, b); err != nil {
			return err
		}
		f.applySettings(now)
		reword := !sameValue(now[keyWords], f.settings.values[keyWords])
		f.settings.values = now
		if reword {
			f.changesets.again(func(*changeset) bool { return true }) // what a commit is confirmed by
		}
	}
	a.conn.mu.Lock()
	mine := values{}
	if !replace {
		maps.Copy(mine, a.conn.settings)
	}
	maps.Copy(mine, own)
	a.conn.settings = mine
	a.conn.mu.Unlock()
	if !changed {
		maps.Copy(shared, own)
		a.conn.confirm(a.uri, encode(settingsAction{"root/configChanged", shared, replace}), &a.origin)
		return nil
	}
	f.root.settingsChanged(now, settingsAction{"root/configChanged", shared, replace}, &a.origin)
	if len(own) > 0 {
		a.conn.confirm(a.uri, encode(settingsAction{"root/configChanged", own, false}), &a.origin)
	}
	if replace {
		f.repeatOwn(a.conn)
	}
	return nil
}

// repeatOwn tells the other connections their own settings again, which a
// replacement of all took from their view.
func (f *Front) repeatOwn(except *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.mu.Lock()
		own := c.settings
		c.mu.Unlock()
		if c != except && len(own) > 0 && c.watches(rootURI) {
			f.journal.whisper(c, actionFrame(rootURI, encode(settingsAction{"root/configChanged", own, false})), closing)
		}
	}
}

// sameValue compares two values as they are written.
func sameValue(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
