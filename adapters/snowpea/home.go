package snowpea

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func tokenPath(home string) string  { return filepath.Join(home, "token") }
func daemonPath(home string) string { return filepath.Join(home, "daemon.json") }

// daemonFile is what clients read to find the daemon.
type daemonFile struct {
	Port            int    `json:"port"`
	PID             int    `json:"pid"`
	Token           string `json:"token"`
	StartedAt       string `json:"startedAt"`
	ProtocolVersion string `json:"protocolVersion"`
	Version         string `json:"version"`
}

func (f *Front) writeDaemon(port int) error {
	b, err := json.MarshalIndent(daemonFile{Port: port, PID: os.Getpid(), Token: f.token,
		StartedAt: f.started.Format(time.RFC3339), ProtocolVersion: surface.ProtocolVersion, Version: f.deps.Version}, "", "  ")
	if err != nil {
		return fmt.Errorf("daemon.json: %w", err)
	}
	if err := writeFile(daemonPath(f.deps.Home), append(b, '\n')); err != nil {
		return fmt.Errorf("daemon.json: %w", err)
	}
	return nil
}

// removeDaemon removes daemon.json if it is still this process's.
func (f *Front) removeDaemon() {
	var d daemonFile
	b, err := os.ReadFile(daemonPath(f.deps.Home))
	if err == nil && json.Unmarshal(b, &d) == nil && d.PID == os.Getpid() && int64(d.Port) == f.port.Load() {
		if err := os.Remove(daemonPath(f.deps.Home)); err != nil {
			f.log.Warn("daemon.json could not be removed", "err", err)
		}
	}
}

// writeFile replaces a file whole, readable by its owner alone.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}
