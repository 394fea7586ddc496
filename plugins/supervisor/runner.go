package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/procgroup"
)

// pluginRunner starts a plugin for go-plugin, as a process group whose output
// is never waited for.
type pluginRunner struct {
	cmd    *exec.Cmd
	log    *logFile
	group  *procgroup.Group
	stdout *os.File
	copied sync.WaitGroup
}

func (r *pluginRunner) Start(context.Context) error {
	stdout, w1, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	stderr, w2, err := os.Pipe()
	if err != nil {
		stdout.Close()
		w1.Close()
		return fmt.Errorf("make a pipe: %w", err)
	}
	r.cmd.Stdout, r.cmd.Stderr = w1, w2
	r.group, err = procgroup.Start(r.cmd)
	w1.Close()
	w2.Close()
	if err != nil {
		stdout.Close()
		stderr.Close()
		return err
	}
	r.stdout = stdout
	r.copied.Go(func() {
		defer stderr.Close()
		_, _ = io.Copy(r.log, stderr)
	})
	r.copied.Go(func() {
		<-r.group.Done()
		deadline := time.Now().Add(drainBound)
		_ = stdout.SetReadDeadline(deadline)
		_ = stderr.SetReadDeadline(deadline)
	})
	return nil
}

// stillborn ends a plugin that did not get through the handshake. If it ended
// by itself, that is the reason, whatever go-plugin made of it.
func (r *pluginRunner) stillborn(err error) error {
	t := time.NewTimer(drainBound)
	defer t.Stop()
	select {
	case <-r.group.Done():
		status := "exit status 0"
		if e := r.group.Err(); e != nil {
			status = e.Error()
		}
		err = fmt.Errorf("it ended before it was ready (%s); its log is %s", status, r.log.path)
	case <-t.C:
	}
	_ = r.group.Stop(0)
	return err
}

func (r *pluginRunner) Wait(context.Context) error {
	<-r.group.Done()
	r.copied.Wait()
	r.stdout.Close()
	return r.group.Err()
}

func (r *pluginRunner) Kill(context.Context) error {
	if r.group == nil {
		return nil
	}
	return r.group.Stop(0)
}

func (r *pluginRunner) ID() string {
	if r.group == nil {
		return ""
	}
	return strconv.Itoa(r.group.PID())
}

func (r *pluginRunner) Name() string                    { return r.cmd.Path }
func (r *pluginRunner) Stdout() io.ReadCloser           { return r.stdout }
func (r *pluginRunner) Diagnose(context.Context) string { return "" }

// Stderr is empty here: it goes to the plugin's log without go-plugin's help.
func (r *pluginRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// PluginToHost takes sockets in the file system only: they are as private as
// their folder.
func (r *pluginRunner) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" {
		return "", "", fmt.Errorf("the plugin listens on %s instead of a unix socket", network)
	}
	return network, addr, nil
}

func (r *pluginRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
