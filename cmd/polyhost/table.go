package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
)

// writeTable shows where the fronts are and how to try each. It shows no
// secret: the lines fetch them when they are run.
func writeTable(w io.Writer, s settings.Settings, e endpoints.Endpoints) {
	self := selfCommand(s.Home)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nFRONT\tURL")
	for _, name := range settings.Fronts {
		if entry, ok := e.Fronts[name]; ok {
			fmt.Fprintf(t, "%s\t%s\n", name, frontURL(entry))
		}
	}
	fmt.Fprintf(t, "console\t%s\n", e.Console.URL)
	_ = t.Flush() // the terminal may be gone
	fmt.Fprintf(w, "\nThe tokens are in %s; `%s keys` shows them.\n\nTry it, from another terminal:\n\n",
		filepath.Join(s.Home, endpoints.File), self)
	for _, name := range settings.Fronts {
		if entry, ok := e.Fronts[name]; ok {
			fmt.Fprintf(w, "  %s\n", tryLine(self, name, frontURL(entry)))
		}
	}
	fmt.Fprintf(w, "  %s status\n\n", self)
}

// tryLine is a command that shows that a front works.
func tryLine(self, front, url string) string {
	switch front {
	case "cognitio":
		return fmt.Sprintf(`curl -su "$(%[1]s keys cognitio username):$(%[1]s keys cognitio password)" %[2]s/session`, self, url)
	case "bae":
		return fmt.Sprintf(`curl -sH "Authorization: Bearer $(%s keys bae client_key)" -d '{}' %s/api/v1/sessions`, self, url)
	case "ahp":
		return self + " call ahp listSessions"
	}
	return self + " call " + front + map[string]string{"snowpea": " session.list", "zidane": " sessions.list"}[front]
}

func frontURL(entry json.RawMessage) string {
	var v struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(entry, &v) // an entry without one has an empty cell
	return v.URL
}

// selfCommand is how this program is called from where it was started.
func selfCommand(home string) string {
	self := os.Args[0]
	if home != defaultHome() {
		self += " --home " + shellQuote(home)
	}
	return self
}

func defaultHome() string {
	if v := os.Getenv("POLYHOST_HOME"); v != "" {
		return v
	}
	user, _ := os.UserHomeDir()
	return filepath.Join(user, ".polyhost")
}

// shellQuote makes s one word of a shell's.
func shellQuote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
