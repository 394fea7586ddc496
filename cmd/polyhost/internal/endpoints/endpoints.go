// Package endpoints is endpoints.json: where a running gateway listens, and
// the secrets that let a client in. The file is there from the moment that
// everything listens until the gateway stops; it is the owner's alone.
package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/polyhost/polyhost/adapters/console"
)

// File is the name of the file in the home.
const File = "endpoints.json"

// ErrNotRunning: the home has no endpoints.json.
var ErrNotRunning = errors.New("no gateway is running on this home: start one with `polyhost serve`")

// Endpoints are where a gateway listens.
type Endpoints struct {
	PID int `json:"pid"`
	// Fronts are entries by front, each in the shape its clients need.
	Fronts  map[string]json.RawMessage `json:"fronts"`
	Console console.Endpoint           `json:"console"`
}

// Write puts the file in place as a whole.
func Write(home string, e Endpoints) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", File, err)
	}
	tmp, err := os.CreateTemp(home, "."+File+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", File, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(b, '\n'))
	if err := errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", File, err)
	}
	if err := os.Rename(tmp.Name(), filepath.Join(home, File)); err != nil {
		return fmt.Errorf("write %s: %w", File, err)
	}
	return nil
}

// Read reads the file; without one the error is ErrNotRunning.
func Read(home string) (Endpoints, error) {
	var e Endpoints
	b, err := os.ReadFile(filepath.Join(home, File))
	if errors.Is(err, fs.ErrNotExist) {
		return e, ErrNotRunning
	}
	if err != nil {
		return e, fmt.Errorf("read %s: %w", File, err)
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("read %s: %w", File, err)
	}
	return e, nil
}

// Remove takes the file away; it may be gone already.
func Remove(home string) error {
	err := os.Remove(filepath.Join(home, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
