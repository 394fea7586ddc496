package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/procgroup"
)

// InstanceVar marks every process that a gateway starts, directly or not, with
// the id of the gateway's run.
const InstanceVar = "POLYHOST_INSTANCE"

// Instance is one run of a gateway on one home directory.
type Instance struct {
	// ID marks the processes of this run.
	ID string
	// Swept is how many processes of earlier runs Begin had to kill.
	Swept int
	home  string
}

// Begin makes a new instance. First it kills what earlier runs on this home
// left behind, known by their ids in the home's list, and nothing else. The
// caller holds the home's lock.
func Begin(home string) (*Instance, error) {
	in := &Instance{ID: strings.ToLower(rand.Text()), home: home}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make the home directory: %w", err)
	}
	earlier, err := Instances(home)
	if err != nil {
		return nil, err
	}
	keep := []string{in.ID}
	for _, id := range earlier {
		n, err := procgroup.KillMarked(InstanceVar, id)
		in.Swept += n
		if err != nil && len(keep) < maxInstances {
			keep = append(keep, id) // for the next time
		}
	}
	// Sockets of plugins that are gone.
	if err := os.RemoveAll(in.runDir()); err != nil {
		return nil, fmt.Errorf("clear away old sockets: %w", err)
	}
	// The id is on disk before the first process bears it.
	if err := replace(listPath(home), strings.Join(keep, "\n")+"\n"); err != nil {
		return nil, fmt.Errorf("note this instance: %w", err)
	}
	return in, nil
}

func listPath(home string) string { return filepath.Join(home, "instances") }

// Instances are the ids of the last run on a home, and of earlier ones that
// could not be cleared away.
func Instances(home string) ([]string, error) {
	b, err := os.ReadFile(listPath(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the earlier instances: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(b)), func(id string) bool { return !wellFormed(id) }), nil
}

// wellFormed keeps a damaged list from marking strangers.
func wellFormed(id string) bool {
	return len(id) == 26 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

func replace(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".instances-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (in *Instance) runDir() string { return filepath.Join(in.home, "run") }

// socketDir is a private folder for sockets; the system's temporary one when
// the home's path is too long for a socket's name.
func (in *Instance) socketDir() string {
	dir := in.runDir()
	if len(dir) > maxSocketDir || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

func (in *Instance) logPath(name string) string { return filepath.Join(in.home, "logs", name+".log") }
