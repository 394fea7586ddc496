package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
)

// TestAProgramSpeaksAHPThroughStandardInputAndOutput is an editor that starts
// the gateway as its child.
func TestAProgramSpeaksAHPThroughStandardInputAndOutput(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := exec.Command(polyhost.Path(), "serve", "--stdio", "--table", "--port-base", "0", "--home", h.place.Home, "--workspace", h.place.Work)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.place.Home), "TMPDIR=" + os.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()

	var judge strict.Log
	frames := bufio.NewReader(out)
	say := func(frame string) {
		t.Helper()
		judge.Sent([]byte(frame))
		if _, err := io.WriteString(in, frame+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	// hear returns the next frame that holds a text; everything on the way is one
	// of the protocol.
	hear := func(text string) []byte {
		t.Helper()
		for {
			line, err := frames.ReadBytes('\n')
			if err != nil {
				_ = cmd.Wait()
				t.Fatalf("%s did not come: %v\n%s", text, err, stderr.String())
			}
			if err := judge.Received(line); err != nil {
				t.Errorf("not a frame of the protocol: %v\n%s", err, line)
			}
			if bytes.Contains(line, []byte(text)) {
				return line
			}
		}
	}

	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"channel":"ahp-root://","protocolVersions":["1.0.0"],"clientId":"child","initialSubscriptions":["ahp-root://"]}}`)
	hear(`"protocolVersion":"1.0.0"`)
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"createSession","params":{"channel":"demo:/s1","provider":"demo","workingDirectories":["file://%s"]}}`, h.place.Work))
	hear(`"id":2`)
	say(`{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"channel":"demo:/s1"}}`)
	var answer struct {
		Result struct {
			Snapshot struct {
				State struct {
					DefaultChat string `json:"defaultChat"`
				} `json:"state"`
			} `json:"snapshot"`
		} `json:"result"`
	}
	if err := json.Unmarshal(hear(`"id":3`), &answer); err != nil {
		t.Fatal(err)
	}
	chat := answer.Result.Snapshot.State.DefaultChat
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"subscribe","params":{"channel":%q}}`, chat))
	hear(`"id":4`)
	say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":%q,"clientSeq":1,"action":{"type":"chat/turnStarted","turnId":"t1","startedAt":"2026-01-02T03:04:05Z","message":{"text":"say hello","origin":{"kind":"user"}}}}}`, chat))
	hear(`"chat/delta"`)
	hear(`"chat/turnComplete"`)

	if o := h.run("serve", "--stdio"); o.code != exitLocked || o.stdout != "" {
		t.Errorf("a second gateway ended with %d and said %q", o.code, o.stdout)
	}

	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(frames)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(rest) {
		if err := judge.Received(line); err != nil {
			t.Errorf("not a frame of the protocol: %v\n%s", err, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the gateway ended with %v\n%s", err, stderr.String())
	}
	if _, err := os.Stat(filepath.Join(h.place.Home, endpoints.File)); !os.IsNotExist(err) {
		t.Errorf("the gateway left its endpoints behind: %v", err)
	}
}

// A client that vanishes without a word breaks the pipe the gateway writes to.
func TestAGatewayWhoseClientVanishedStopsInGoodOrder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := exec.Command(polyhost.Path(), "serve", "--stdio", "--port-base", "0", "--home", h.place.Home, "--workspace", h.place.Work)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.place.Home), "TMPDIR=" + os.TempDir()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	_ = out.Close()
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the gateway ended with %v", err)
	}
	_ = in.Close()
}
