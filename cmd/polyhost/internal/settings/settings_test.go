package settings

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load reads settings from a config file and a command line; the environment
// is the test's.
func load(t *testing.T, file string, args ...string) (Settings, error) {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, FileName), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var src Source
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	src.BindHome(fs)
	src.Bind(fs)
	if err := fs.Parse(append(args, "--home", home)); err != nil {
		t.Fatal(err)
	}
	return src.Load()
}

func TestAFlagBeatsTheEnvironmentBeatsTheFileBeatsTheDefault(t *testing.T) {
	t.Setenv("POLYHOST_GRACE", "2s")
	t.Setenv("POLYHOST_QUESTION_TIMEOUT", "2m")
	t.Setenv("POLYHOST_FRONTS", "ahp,bae")
	s, err := load(t, `
grace = "1s"
question_timeout = "1m"
approval_timeout = "3m"
allowed_origins = ["https://a.example", "https://b.example"]
port_base = 9000
[plugin_pins]
echo = "`+strings.Repeat("ab", 32)+`"
[plugin_env]
echo = "ECHO_TOKEN ECHO_URL"
`, "--grace", "4s")
	if err != nil {
		t.Fatal(err)
	}
	if s.Grace != 4*time.Second || s.QuestionTimeout != 2*time.Minute || s.ApprovalTimeout != 3*time.Minute || s.IdleAfter != 10*time.Minute {
		t.Errorf("times are %v, %v, %v, %v", s.Grace, s.QuestionTimeout, s.ApprovalTimeout, s.IdleAfter)
	}
	if !slices.Equal(s.Fronts, []string{"ahp", "bae"}) || !slices.Equal(s.AllowedOrigins, []string{"https://a.example", "https://b.example"}) {
		t.Errorf("lists are %v, %v", s.Fronts, s.AllowedOrigins)
	}
	if s.PortBase != 9000 || !maps.Equal(s.PluginPins, map[string]string{"echo": strings.Repeat("ab", 32)}) {
		t.Errorf("port %d, pins %v", s.PortBase, s.PluginPins)
	}
	if !maps.Equal(s.PluginEnv, map[string]string{"echo": "ECHO_TOKEN ECHO_URL"}) {
		t.Errorf("environment of plugins is %v", s.PluginEnv)
	}
	if !filepath.IsAbs(s.Workspace) || s.PluginDir != filepath.Join(s.Home, "plugins") {
		t.Errorf("directories are %s, %s", s.Workspace, s.PluginDir)
	}
}

func TestAWrongSettingIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"unknown key":            {file: "colour = 1", want: "unknown setting colour"},
		"unknown table":          {file: "[fronts.bae]\nx = 1", want: "fronts: a table is not wanted"},
		"the home in the file":   {file: `home = "/x"`, want: "unknown setting home"},
		"not TOML":               {file: "grace = ", want: "config.toml"},
		"a number for a time":    {file: "grace = 5", want: "grace"},
		"a word for a switch":    {file: `dev_containers = "maybe"`, want: `dev_containers: "maybe" is neither true nor false`},
		"a word for a number":    {file: `port_base = "high"`, want: `port_base: "high" is not a whole number`},
		"a word for a list":      {file: `fronts = "bae"`, want: "fronts: a list is wanted"},
		"a list for a word":      {file: `mode = ["plan"]`, want: "mode: a list is not wanted"},
		"numbers in a list":      {file: "fronts = [1]", want: "fronts: a list of strings"},
		"no such front":          {args: []string{"--fronts", "gopher"}, want: `fronts: "gopher" is not one of`},
		"no such mode":           {args: []string{"--mode", "yolo"}, want: "mode"},
		"no such level":          {args: []string{"--log-level", "loud"}, want: "log-level"},
		"no such format":         {args: []string{"--log-format", "xml"}, want: "log-format"},
		"a port too high":        {args: []string{"--port-base", "65535"}, want: "port-base"},
		"a negative time":        {args: []string{"--agent-idle-after", "-1s"}, want: "agent-idle-after"},
		"no time at all":         {args: []string{"--grace", "0s"}, want: "grace"},
		"not a sum":              {args: []string{"--plugin-pins", "echo=123"}, want: "plugin-pins: the sum of echo"},
		"a file that is missing": {args: []string{"--config", "/nonexistent.toml"}, want: "config file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := load(t, c.file, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// TestThePrintedDefaultsAreAConfigFile takes the comment signs away and reads
// it back.
func TestThePrintedDefaultsAreAConfigFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := WriteDefaults(&text); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			line = line[1:]
		}
		file.WriteString(line)
	}
	printed, err := load(t, file.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, file.String())
	}
	plain, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if printed.Grace != plain.Grace || printed.PortBase != plain.PortBase || !slices.Equal(printed.Fronts, plain.Fronts) {
		t.Errorf("read back: %+v, want %+v", printed, plain)
	}
	if len(printed.PluginPins)+len(printed.PluginEnv)+len(printed.ACPAgents) > 0 {
		t.Errorf("a table took what is printed behind it: %+v", printed)
	}
	changed, err := load(t, strings.ReplaceAll(file.String(), "dev_containers = true", "dev_containers = false"))
	if err != nil || changed.DevContainers {
		t.Errorf("a switch that was turned in the printed file: %v, %v", changed.DevContainers, err)
	}
}
