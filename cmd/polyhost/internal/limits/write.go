// Package limits lists every fixed limit, timeout and size of the program:
// the constants in the limits.go of each package, with their reasons.
package limits

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/polyhost/polyhost"
)

// Write writes the list, one package after another, as comments of a config
// file.
func Write(w io.Writer) error {
	err := fs.WalkDir(polyhost.Limits, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return describe(w, file)
	})
	if err != nil {
		return fmt.Errorf("list the limits: %w", err)
	}
	return nil
}

func describe(w io.Writer, file string) error {
	source, err := polyhost.Limits.ReadFile(file)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", path.Dir(file))
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			doc := v.Doc
			if doc == nil && len(g.Specs) == 1 {
				doc = g.Doc
			}
			for line := range strings.Lines(doc.Text()) {
				fmt.Fprintf(&out, "#   %s", line)
			}
			for i, name := range v.Names {
				if i >= len(v.Values) {
					continue // it repeats the value above
				}
				fmt.Fprintf(&out, "#     %s = ", name.Name)
				if err := printer.Fprint(&out, files, v.Values[i]); err != nil {
					return err
				}
				out.WriteByte('\n')
			}
		}
	}
	out.WriteString("#\n")
	_, err = w.Write(out.Bytes())
	return err
}
