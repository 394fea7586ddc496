package forge

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"https://github.com/o/r.git":              "o/r",
		"https://github.com/o/r":                  "o/r",
		"https://GitHub.com/o/r/":                 "o/r",
		"https://user:secret@github.com/o/r.git":  "o/r",
		"ssh://git@github.com:22/o/r.git":         "o/r",
		"git@github.com:o/r.git":                  "o/r",
		"github.com:o/my.repo_1":                  "o/my.repo_1",
		"https://example.com/o/r.git":             "",
		"https://github.com.example.com/o/r":      "",
		"https://github.com/o":                    "",
		"https://github.com/o/r/pulls":            "",
		"https://github.com/o/..":                 "",
		"https://github.com/-o/r":                 "",
		"https://github.com/o/r?x=1":              "o/r",
		"https://github.com/o/a%2fb":              "",
		"ext::sh -c evil":                         "",
		"file:///github.com/o/r":                  "",
		"/srv/github.com:o/r":                     "",
		"":                                        "",
		"git@github.com@evil.example:o/r":         "",
		"--upload-pack=evil":                      "",
		"https://github.com/o/r\ninjected: x":     "",
		"https://evil.example/https://github.com": "",
	} {
		got, ok := Parse(remote, "github.com")
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v %v, want %q", remote, got, ok, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("git@github.com:o/r.git")
	f.Add("https://github.com/o/r")
	f.Fuzz(func(t *testing.T, remote string) {
		if r, ok := Parse(remote, "github.com"); ok && (!ownerName.MatchString(r.Owner) || !repoName.MatchString(r.Name)) {
			t.Errorf("%q is %v", remote, r)
		}
	})
}
