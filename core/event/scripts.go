package event

import "encoding/json"

// Script is what a shell is to source before each command that an agent gives it.
type Script struct {
	Shell string `json:"shell"` // Bash, …
	Text  string `json:"script"`
}

// Bash is the shell of which agents' scripts are sourced; those for others are
// only kept.
const Bash = "bash"

// Scripts is a list of scripts as JSON: a text, so that settings are compared as
// they are. "" is none that was ever given, which is not the empty list: that one
// takes earlier scripts back.
type Scripts string

// PackScripts makes a list of scripts into one text.
func PackScripts(list []Script) Scripts {
	if list == nil {
		list = []Script{}
	}
	b, _ := json.Marshal(list) // it is made of texts
	return Scripts(b)
}

// Of is the script for a shell, the first that is not empty; "" if there is none.
func (s Scripts) Of(shell string) string {
	var list []Script
	_ = json.Unmarshal([]byte(s), &list) // "" has none
	for _, one := range list {
		if one.Shell == shell && one.Text != "" {
			return one.Text
		}
	}
	return ""
}
