package users

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAUserIsKnownByTheToken(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d := In(home)
	if d.Exists() {
		t.Fatal("there is a directory before anybody was added")
	}
	if name, ok, err := d.Verify("x"); ok || err != nil || name != "" {
		t.Fatalf("nobody's token is %q's, %v", name, err)
	}
	tokens := map[string]string{}
	for _, name := range []string{"zoe", "ann"} {
		token, err := d.Add(name)
		if err != nil || len(token) < 40 {
			t.Fatalf("%s got %q, %v", name, token, err)
		}
		tokens[name] = token
	}
	for name, token := range tokens {
		if got, ok, err := d.Verify(token); got != name || !ok || err != nil {
			t.Errorf("%s's token is %q's, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "x", tokens["ann"] + "x", tokens["ann"][1:]} {
		if name, ok, _ := d.Verify(bad); ok {
			t.Errorf("%q is taken for %s", bad, name)
		}
	}
	if all, err := In(home).Users(); fmt.Sprint(all) != "[{ann []} {zoe []}]" || err != nil {
		t.Errorf("the users are %v, %v", all, err)
	}
	text, err := os.ReadFile(filepath.Join(home, File))
	if err != nil || strings.Contains(string(text), tokens["ann"]) {
		t.Errorf("the directory has the token itself: %s, %v", text, err)
	}
	info, err := os.Stat(filepath.Join(home, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the directory's mode is %v, %v", info.Mode(), err)
	}
	if err := d.Remove("ann"); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := d.Verify(tokens["ann"]); ok {
		t.Error("a user who was removed is known still")
	}
	if err := d.Remove("zoe"); err != nil || !d.Exists() {
		t.Errorf("the directory went with its last user: %v", err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	d := In(t.TempDir())
	for _, bad := range []string{"", "Ann", "a b", "../x", "a:b", strings.Repeat("a", maxName+1)} {
		if _, err := d.Add(bad); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := d.Add("ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Add("ann"); !errors.Is(err, ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if err := d.Remove("bob"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nobody: %v", err)
	}
}

func TestAUserHasWhatWasGranted(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	// As it was written before there were grants.
	if err := os.WriteFile(filepath.Join(home, File), []byte(`{"users":[{"name":"old","hash":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := In(home)
	may := func(name string, want ...Grant) {
		t.Helper()
		for _, g := range Grants {
			got, err := d.Granted(name, g)
			if err != nil || got != slices.Contains(want, g) {
				t.Errorf("%s has %s: %v, %v", name, g, got, err)
			}
		}
	}
	token, err := d.Add("ann", TrustPush, ConfigWrite, TrustPush)
	if err != nil {
		t.Fatal(err)
	}
	may("ann", ConfigWrite, TrustPush)
	may("old")
	may("nobody")
	if err := d.Grant("old", ConfigWrite); err != nil {
		t.Fatal(err)
	}
	may("old", ConfigWrite)
	if all, err := d.Users(); fmt.Sprint(all) != "[{ann [config:write trust:push]} {old [config:write]}]" || err != nil {
		t.Errorf("the users are %v, %v", all, err)
	}
	if err := d.Grant("ann"); err != nil {
		t.Fatal(err)
	}
	may("ann")
	if name, ok, err := d.Verify(token); name != "ann" || !ok || err != nil {
		t.Errorf("the token became %q's, %v", name, err)
	}
	if _, err := d.Add("bob", "everything"); !errors.Is(err, ErrGrant) {
		t.Errorf("a grant that is none: %v", err)
	}
	if err := d.Grant("ann", ""); !errors.Is(err, ErrGrant) {
		t.Errorf("a grant without a name: %v", err)
	}
	if err := d.Grant("bob", TrustPush); !errors.Is(err, ErrUnknown) {
		t.Errorf("a grant to nobody: %v", err)
	}
}

func TestADirectoryThatCannotBeReadLetsNobodyIn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d := In(home)
	token, err := d.Add("ann")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"users":[],"more":1}`, strings.Repeat(" ", maxFile+1)} {
		if err := os.WriteFile(filepath.Join(home, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := d.Verify(token); ok || err == nil {
			t.Errorf("%.20q: %v, %v", text, ok, err)
		}
		if ok, err := d.Granted("ann", TrustPush); ok || err == nil {
			t.Errorf("%.20q: a grant: %v, %v", text, ok, err)
		}
		if _, err := d.Add("bob"); err == nil {
			t.Errorf("%.20q: somebody was added to it", text)
		}
	}
}
