package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "POLYHOST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// keyName is the config file's key of a flag.
func keyName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// readFile reads the config file; without one that was asked for by name it
// may be missing.
func (src *Source) readFile(home string) (map[string]any, error) {
	path, named := src.config, src.config != ""
	if v := os.Getenv(envName("config")); !named && v != "" {
		path, named = v, true
	}
	if !named {
		path = filepath.Join(home, FileName)
	}
	f, err := os.Open(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	var values map[string]any
	if _, err := toml.Decode(string(text), &values); err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	known := map[string]bool{}
	src.flags.VisitAll(func(f *pflag.Flag) { known[keyName(f.Name)] = f.Name != "home" })
	var unknown []string
	for key := range values {
		if !known[key] {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("config file %s: unknown setting %s: `polyhost config defaults` lists those there are", path, strings.Join(unknown, ", "))
	}
	return values, nil
}

// apply fills the flags that the command line did not set.
func (src *Source) apply(file map[string]any) error {
	var errs []error
	src.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "home" {
			return
		}
		if v, ok := os.LookupEnv(envName(f.Name)); ok {
			if err := set(f.Value, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", envName(f.Name), err))
			}
			return
		}
		if v, ok := file[keyName(f.Name)]; ok {
			if err := setFromFile(f.Value, v); err != nil {
				errs = append(errs, fmt.Errorf("config file: %s: %w", keyName(f.Name), err))
			}
		}
	})
	return errors.Join(errs...)
}

// set gives a flag a text, and says in words what is wanted where it is not that.
func set(flag pflag.Value, text string) error {
	err := flag.Set(text)
	if err == nil {
		return nil
	}
	switch flag.Type() {
	case "bool":
		return fmt.Errorf("%q is neither true nor false", text)
	case "int":
		return fmt.Errorf("%q is not a whole number", text)
	}
	return err
}

// setFromFile gives a flag a TOML value: a scalar, a list of strings or a
// table of strings.
func setFromFile(flag pflag.Value, v any) error {
	switch v := v.(type) {
	case string, int64, bool:
		if _, list := flag.(pflag.SliceValue); list {
			return errors.New("a list is wanted, like [\"a\", \"b\"]")
		}
		if flag.Type() == "stringToString" {
			return errors.New("a table is wanted")
		}
		return set(flag, fmt.Sprint(v))
	case []any:
		list, ok := flag.(pflag.SliceValue)
		if !ok {
			return errors.New("a list is not wanted here")
		}
		items := make([]string, len(v))
		for i, item := range v {
			if items[i], ok = item.(string); !ok {
				return errors.New("a list of strings is wanted")
			}
		}
		return list.Replace(items)
	case map[string]any:
		if flag.Type() != "stringToString" {
			return errors.New("a table is not wanted here")
		}
		for key, item := range v {
			s, ok := item.(string)
			if !ok {
				return fmt.Errorf("%s: a string is wanted", key)
			}
			if err := flag.Set(key + "=" + s); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a value of type %T is not wanted here", v)
}

// WriteDefaults writes a config file with every setting at its default,
// commented out. Tables come last: what follows one in TOML belongs to it.
func WriteDefaults(w io.Writer) error {
	var src Source
	src.BindHome(pflag.NewFlagSet("", pflag.ContinueOnError))
	src.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	src.flags.SortFlags = false
	var plain, tables strings.Builder
	src.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "home" {
			return // the file lies there
		}
		b := &plain
		if f.Value.Type() == "stringToString" {
			b = &tables
		}
		fmt.Fprintf(b, "# %s (--%s, %s)\n", f.Usage, f.Name, envName(f.Name))
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			quoted := []string{}
			for _, item := range v.GetSlice() {
				quoted = append(quoted, fmt.Sprintf("%q", item))
			}
			fmt.Fprintf(b, "#%s = [%s]\n\n", keyName(f.Name), strings.Join(quoted, ", "))
		default:
			switch f.Value.Type() {
			case "int", "bool":
				fmt.Fprintf(b, "#%s = %s\n\n", keyName(f.Name), f.DefValue)
			case "stringToString":
				fmt.Fprintf(b, "#[%s]\n\n", keyName(f.Name))
			default:
				fmt.Fprintf(b, "#%s = %q\n\n", keyName(f.Name), f.DefValue)
			}
		}
	})
	_, err := io.WriteString(w, plain.String()+tables.String())
	return err
}
