// Gen writes shapes.txt from the JSON Schema files that the protocol is
// published with:
//
//	go run ./gen -schema DIR > shapes.txt
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const head = `# The shapes of the Agent Host Protocol 1.0.0, closed: a key that is not listed is
# not declared, one without a question mark is required. Written by gen from the
# protocol's schema files; change it there.
#
# NAME = TYPE, where TYPE is a name, a JSON literal, string, number, boolean, null,
# any, map<TYPE>, [TYPE] for a list, {key: TYPE, key?: TYPE} or TYPE | TYPE.
`

// named are the shapes with names that the published files do not say as they
// are on the wire: bits that are combined, what depends on the channel, and what
// is cleared by null.
var named = map[string]string{
	"SessionStatus": "number",
}

// keyed are the keys of which the same is true; "" leaves a key out.
var keyed = map[string]string{
	"Snapshot.state":                                "any",
	"ActionEnvelope.action":                         "any",
	"ChatToolCallApprovedAction.approved":           "true",
	"ChatToolCallDeniedAction.approved":             "false",
	"SessionSummaryChangedParams.changes.activity":  "string | null",
	"SessionSummaryChangedParams.changes.resource":  "",
	"SessionSummaryChangedParams.changes.provider":  "",
	"SessionSummaryChangedParams.changes.createdAt": "",
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Const      any                `json:"const"`
	Enum       []any              `json:"enum"`
	OneOf      []*schema          `json:"oneOf"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional *schema            `json:"additionalProperties"`
}

func main() {
	log.SetFlags(0)
	dir := flag.String("schema", ".", "folder of the schema files")
	flag.Parse()
	files, err := filepath.Glob(filepath.Join(*dir, "*.schema.json"))
	if err != nil || len(files) == 0 {
		log.Fatalf("no *.schema.json in %s (%v)", *dir, err)
	}
	all := map[string]*schema{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		var f struct {
			Defs map[string]*schema `json:"$defs"`
		}
		if err := json.Unmarshal(data, &f); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		for name, s := range f.Defs {
			if old := all[name]; old == nil || len(old.OneOf) < len(s.OneOf) {
				all[name] = s
			}
		}
	}
	out := map[string]string{}
	for name := range all {
		if root(name) {
			add(out, all, name)
		}
	}
	fmt.Print(head)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		fmt.Printf("%s = %s\n", name, out[name])
	}
}

// root reports whether a shape is sent as it is; the others are parts of these.
func root(name string) bool {
	if name == "PaginatedParams" || name == "PaginatedResult" || name == "BaseParams" {
		return false
	}
	for _, end := range []string{"Params", "Result", "ErrorData"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	switch name {
	case "StateAction", "ActionEnvelope", "RootState", "SessionState", "ChatState", "TerminalState", "ChangesetState", "AnnotationsState",
		"ResourceWatchState", "AutomationState", "AutomationRunState", "CanvasState":
		return true
	}
	return false
}

func add(out map[string]string, all map[string]*schema, name string) {
	if _, done := out[name]; done {
		return
	}
	if text, ok := named[name]; ok {
		out[name] = text
		return
	}
	s := all[name]
	if s == nil {
		log.Fatalf("%s is not defined", name)
	}
	out[name] = ""
	out[name] = spell(s, name, func(ref string) { add(out, all, ref) })
}

func spell(s *schema, path string, need func(string)) string {
	literal := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		need(name)
		return name
	case s.Const != nil:
		return literal(s.Const)
	case len(s.Enum) > 0:
		var l []string
		for _, v := range s.Enum {
			l = append(l, literal(v))
		}
		return strings.Join(l, " | ")
	case len(s.OneOf) > 0:
		var l []string
		for _, v := range s.OneOf {
			if v.Ref == "#/$defs/" { // the published list of actions begins with one
				continue
			}
			l = append(l, spell(v, path, need))
		}
		return strings.Join(l, " | ")
	case s.Type == "array":
		return "[" + spell(s.Items, path, need) + "]"
	case s.Properties != nil:
		var l []string
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			at := path + "." + key
			text, fixed := keyed[at]
			if !fixed {
				text = spell(s.Properties[key], at, need)
			} else if text == "" {
				continue
			}
			if !slices.Contains(s.Required, key) {
				key += "?"
			}
			l = append(l, key+": "+text)
		}
		return "{" + strings.Join(l, ", ") + "}"
	case s.Additional != nil:
		return "map<" + spell(s.Additional, path, need) + ">"
	case s.Type == "object":
		return "map<any>"
	case s.Type != "":
		return s.Type
	}
	return "any"
}
