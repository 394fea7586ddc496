package ahp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// keyShells are the scripts of a session's shells, which editors' windows push.
const keyShells = "shellInitScripts"

// shellsProperty is read-only, so that windows push it and draw no control.
var shellsProperty = configProperty{Type: "array", Title: "Shell scripts", ReadOnly: true, SessionMutable: true,
	Description: "What a shell sources before each command of the agent",
	Items: &configProperty{Type: "object", Title: "Script", Required: []string{"shell", "script"}, Properties: map[string]configProperty{
		"shell": {Type: "string", Title: "Shell", Enum: shells}, "script": {Type: "string", Title: "Script"}}}}

// shells are those that a window has scripts for.
var shells = []string{event.Bash, "powershell"}

// readShells reads the scripts of a session's shells.
func readShells(raw json.RawMessage) (event.Scripts, error) {
	if len(raw) > maxShellInit {
		return "", refusal(fmt.Sprintf("%s: longer than %d bytes", keyShells, maxShellInit))
	}
	var given []struct {
		Shell  string `json:"shell" jsonx:"required"`
		Script string `json:"script" jsonx:"required"`
	}
	if err := jsonx.DecodeChecked(raw, &given, jsonx.RejectUnknown()); err != nil {
		return "", refusal(keyShells + ": " + err.Error())
	}
	if len(given) > maxShells {
		return "", refusal(fmt.Sprintf("%s: more than %d scripts", keyShells, maxShells))
	}
	list := make([]event.Script, len(given))
	for i, g := range given {
		switch {
		case !slices.Contains(shells, g.Shell):
			return "", refusal(fmt.Sprintf("%s: there is no script for the shell %q", keyShells, clip(g.Shell)))
		case strings.ContainsRune(g.Script, 0):
			return "", refusal(keyShells + ": a script has no NUL")
		}
		list[i] = event.Script{Shell: g.Shell, Text: g.Script}
	}
	return event.PackScripts(list), nil
}
