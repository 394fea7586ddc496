package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module      = "github.com/polyhost/polyhost/"
	rootPackage = "github.com/polyhost/polyhost"
)

// area is the top folder of a package, and unit the part of it that must not
// know its neighbours, like adapters/ahp.
func area(pkg string) string { a, _, _ := strings.Cut(pkg, "/"); return a }

func unit(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// mayImport are the rules of docs/architecture.md: imports point one way.
func mayImport(from, to string) bool {
	if to == rootPackage {
		return area(from) == "cmd"
	}
	switch area(from) {
	case "core":
		return area(to) == "core"
	case "transports":
		return area(to) == "transports"
	case "backends":
		return area(to) == "core" || area(to) == "backends"
	case "plugins":
		return area(to) == "core" || area(to) == "plugins" || area(to) == "backends"
	case "adapters":
		return area(to) == "core" || area(to) == "transports" || unit(to) == unit(from) || unit(to) == "adapters/front"
	case "docs":
		return area(to) == "core" || unit(to) == "plugins/sdk"
	case "cmd":
		return area(to) != "docs"
	}
	return false
}

// testsMayImport what there is no other way to test with: real agents, real
// sockets, for the example plugin what runs it, and what holds the docs' tables to
// the code.
func testsMayImport(from, to string) bool {
	return mayImport(from, to) || area(to) == "backends" || area(to) == "transports" || to == "docs/doctest" || area(from) == "docs" && area(to) == "plugins"
}

// TestImportsPointOneWay reads what the packages import.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; packages++ {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			if to, ours := strings.CutPrefix(imported, module); (ours || to == rootPackage) && !mayImport(from, to) {
				t.Errorf("%s must not import %s", from, to)
			}
		}
		for _, imported := range append(p.TestImports, p.XTestImports...) {
			to, ours := strings.CutPrefix(imported, module)
			if ours && !testsMayImport(from, to) {
				t.Errorf("the tests of %s must not import %s", from, to)
			}
		}
	}
	if packages < 20 {
		t.Errorf("only %d packages were found", packages)
	}
}

// maxLines is the longest source file, tests and generated code left out.
const maxLines = 1000

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("// Code generated")) {
			return nil
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d", path, n, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
