package discover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyPinnedPluginsAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		Prefix + "good": 0o755, Prefix + "changed": 0o755, Prefix + "unpinned": 0o755,
		Prefix + "shared": 0o777, Prefix + "text": 0o644, Prefix + "Bad Name": 0o755, "readme": 0o755,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(name string) string {
		s, err := Sum(filepath.Join(dir, Prefix+name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pins := map[string]string{
		"good": strings.ToUpper(sum("good")), "changed": sum("good"), "shared": sum("shared"), "text": sum("text"), "gone": sum("good"),
	}
	found, refused, err := Find(dir, pins)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Name != "good" || found[0].Path != filepath.Join(dir, Prefix+"good") {
		t.Errorf("found %+v", found)
	}
	want := [][]string{
		{"plugin Bad Name", "small letters"},
		{"plugin changed", sum("changed"), sum("good")},
		{"plugin gone is pinned, but there is no"},
		{"plugin shared", "other users"},
		{"plugin text", "not an executable"},
		{"plugin unpinned", "is not pinned; its sum is " + sum("unpinned")},
	}
	if len(refused) != len(want) {
		t.Fatalf("refused %v", refused)
	}
	for i, words := range want {
		for _, w := range words {
			if !strings.Contains(refused[i].Error(), w) {
				t.Errorf("%q does not say %q", refused[i], w)
			}
		}
	}
	if found, refused, err := Find(filepath.Join(dir, "nosuch"), nil); err != nil || len(found)+len(refused) != 0 {
		t.Errorf("no folder: %v %v %v", found, refused, err)
	}
}
