package claude

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/event"
)

// editsOf works out from a call's input and the file on disk what the call is
// about to change; nil for calls that change no file. Files outside of the
// working directories get a change without texts.
func editsOf(dirs []string, name string, input json.RawMessage) []event.FileEdit {
	switch name {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
	default:
		return nil
	}
	var in toolInput
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	path := words(in.FilePath, in.Notebook)
	if path == "" {
		return nil
	}
	bare := []event.FileEdit{{Path: absolute(dirs, path), Kind: "edit"}}
	if name == "NotebookEdit" {
		return bare
	}
	d := files.Dirs(dirs)
	after := in.Content
	if name != "Write" {
		before, err := d.Load(path, files.MaxEdit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return bare
		}
		var ok bool
		if after, ok = in.apply(name, string(before)); !ok {
			return bare
		}
	}
	e, err := d.Edit(path, after)
	if err != nil {
		return bare
	}
	return []event.FileEdit{e}
}

// apply is the text after an edit; false if the edit does not fit it.
func (in *toolInput) apply(name, text string) (string, bool) {
	edits := in.Edits
	if name == "Edit" {
		edits = []textEdit{{in.Old, in.New, in.ReplaceAll}}
	}
	for _, e := range edits {
		switch {
		case e.Old == "" && text == "":
			text = e.New
		case e.Old == "" || !strings.Contains(text, e.Old):
			return "", false
		case e.ReplaceAll:
			text = strings.ReplaceAll(text, e.Old, e.New)
		default:
			text = strings.Replace(text, e.Old, e.New, 1)
		}
	}
	return text, true
}
