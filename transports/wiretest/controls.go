package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func setFront(r *run, rest string) error {
	if _, ok := r.endpoints[rest]; !ok {
		return fmt.Errorf("there is no front %q", rest)
	}
	r.script.front = rest
	r.setEndpoints(r.endpoints)
	return nil
}

func setTimeout(r *run, rest string) (err error) {
	r.timeout, err = time.ParseDuration(rest)
	return err
}

func setVar(r *run, rest string) error {
	name, value, ok := strings.Cut(rest, " ")
	if !ok {
		return errors.New("want NAME VALUE")
	}
	r.vars[name] = strings.TrimSpace(value)
	return nil
}

// controlGateway reads "stop", "kill", "start" or "restart".
func controlGateway(r *run, rest string) error {
	switch rest {
	case "stop", "kill", "restart":
		if !r.running {
			return errors.New("the gateway is not running")
		}
		r.running = false
		end := r.gateway.Stop
		if rest == "kill" {
			end = r.gateway.Kill
		}
		if err := end(r.place); err != nil {
			return err
		}
		if rest != "restart" {
			return nil
		}
		return r.start()
	case "start":
		if r.running {
			return errors.New("the gateway is running")
		}
		return r.start()
	}
	return fmt.Errorf("want start, stop, restart or kill, not %q", rest)
}

// checkFile reads "PATH missing", "PATH is STRING" or "PATH contains STRING".
// The file may take until the timeout to become so, except to be missing.
func checkFile(r *run, rest string) error {
	path, rest, _ := strings.Cut(rest, " ")
	how, want, _ := strings.Cut(rest, " ")
	full := filepath.Join(r.place.Work, filepath.FromSlash(path))
	if how == "missing" {
		if _, err := os.Stat(full); !errors.Is(err, os.ErrNotExist) {
			return errors.New("the file is there")
		}
		return nil
	}
	var text string
	if err := json.Unmarshal([]byte(want), &text); err != nil {
		return fmt.Errorf("want a JSON string: %w", err)
	}
	for deadline := time.Now().Add(r.timeout); ; time.Sleep(pollEvery) {
		got, err := os.ReadFile(full)
		switch {
		case err == nil && how == "is" && string(got) == text,
			err == nil && how == "contains" && strings.Contains(string(got), text):
			return nil
		case how != "is" && how != "contains":
			return fmt.Errorf("want missing, is or contains, not %q", how)
		case time.Now().After(deadline):
			return fmt.Errorf("the file holds %q (%v)", cut(string(got)), err)
		}
	}
}
