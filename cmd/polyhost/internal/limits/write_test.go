package limits

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLimitsOfEveryPackageAreListed(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	if err := Write(&list); err != nil {
		t.Fatal(err)
	}
	err := fs.WalkDir(os.DirFS(filepath.Join("..", "..", "..", "..")), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "limits.go" {
			return err
		}
		if !strings.Contains(list.String(), "# "+path.Dir(file)+"\n") {
			t.Errorf("nothing of %s: add its folder to sources.go", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(list.String(), "DefaultGrace = 5 * time.Second") {
		t.Error("no default grace period")
	}
}
