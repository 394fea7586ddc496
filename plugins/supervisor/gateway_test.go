package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

// gateway is a process that begins an instance, runs a plugin with a tool that
// ignores TERM, says so, and waits to be killed.
func gateway(home string) error {
	in, err := Begin(home)
	if err != nil {
		return err
	}
	b := New(Options{Name: "demo", Path: os.Args[0], Args: []string{"backend", "demo"}, Instance: in})
	c, err := b.Open(context.Background(), agent.Open{Session: "s", Dirs: []string{home}})
	if err != nil {
		return err
	}
	p, err := b.(*supervisor).running(context.Background())
	if err != nil {
		return err
	}
	fmt.Println(in.ID, p.group.PID())
	_, err = play(context.Background(), c, `run trap '' TERM; setsid sleep 300 & sleep 300 & while :; do sleep 1; done`)
	return err
}

// spawnGateway starts one and waits for its plugin and tools.
func spawnGateway(t *testing.T, home string) (cmd *exec.Cmd, id string, plugin int) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "gateway", home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(line)
	plugin, err = strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	running(t, fields[0], 4)
	return cmd, fields[0], plugin
}

func TestNothingIsLeftWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd, id, _ := spawnGateway(t, home)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	none(t, id)
}

func TestTheNextGatewaySweepsWhatCouldNotEndItself(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd, id, plugin := spawnGateway(t, home)
	// A plugin that is stopped notices nothing, and one that is killed
	// takes care of nothing.
	halt(t, plugin)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_ = syscall.Kill(plugin, syscall.SIGKILL)
	running(t, id, 3)

	stranger := exec.Command("sleep", "300")
	stranger.Env = []string{InstanceVar + "=" + strings.Repeat("a", 26)}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()

	in, err := Begin(home)
	if err != nil {
		t.Fatal(err)
	}
	if in.Swept < 3 {
		t.Errorf("swept %d processes", in.Swept)
	}
	none(t, id)
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another home's process is gone: %v", err)
	}
	if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stranger.Process.Pid)); strings.Contains(string(stat), ") Z ") {
		t.Error("another home's process was killed")
	}
	list, err := os.ReadFile(filepath.Join(home, "instances"))
	if err != nil || string(list) != in.ID+"\n" {
		t.Errorf("the list is %q, %v", list, err)
	}
}
