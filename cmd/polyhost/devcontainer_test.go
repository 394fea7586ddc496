package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
	"github.com/polyhost/polyhost/core/devcontainer"
)

// TestAGatewayAnswersThroughARelayIntoAContainer has stand-ins for the programs:
// the container is a directory of this machine, the gateway in it is the real one.
// A second relay gets a gateway of its own once the first one's has left the home.
func TestAGatewayAnswersThroughARelayIntoAContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(polyhost.Path(), filepath.Join(dir, "polyhost")); err != nil {
		t.Fatal(err)
	}
	cli := filepath.Join(dir, "devcontainer")
	script := `#!/bin/sh
verb=$1; shift 3
case $verb in
up) echo '{"outcome":"success","containerId":"c0ffee","remoteWorkspaceFolder":"` + folder + `"}';;
exec) HOME=` + dir + ` PATH=` + dir + `:$PATH exec "$@";;
esac
`
	syscall.ForkLock.RLock() // a program that another test starts now would hold it open, and it could not run
	err := os.WriteFile(cli, []byte(script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := devcontainer.New("true", cli)
	for range 2 {
		frames := make(chan []byte, 16)
		r, err := c.Open(ctx, folder, devcontainer.Listener{Output: func(string) {}, Frame: func(f []byte) { frames <- f }})
		if err != nil {
			t.Fatal(err)
		}
		var judge strict.Log
		ask := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"channel":"ahp-root://","protocolVersions":["1.0.0"],"clientId":"inside"}}`
		judge.Sent([]byte(ask))
		if err := r.Send(ask); err != nil {
			t.Fatal(err)
		}
		select {
		case f := <-frames:
			if err := judge.Received(f); err != nil || !strings.Contains(string(f), `"protocolVersion":"1.0.0"`) || !strings.Contains(string(f), folder) {
				t.Errorf("it answers %s: %v", f, err)
			}
		case <-ctx.Done():
			t.Fatal("the gateway in the container does not answer")
		}
		r.Close()
		select {
		case <-r.Done():
		case <-time.After(patience):
			t.Fatal("the relay does not end")
		}
	}
}
