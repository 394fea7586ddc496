//go:build e2e

package editor

import (
	"strings"
	"testing"
	"time"
)

// TestInstall only installs: whoever runs it first can tell a registry that is
// out of reach from an editor that does not work.
func TestInstall(t *testing.T) { install(t) }

// TestEditor plays its scenarios in one window, one after the other: to load the
// editor takes most of a minute. The first ones are what the others need.
func TestEditor(t *testing.T) {
	r := newRig(t)
	for _, s := range []struct {
		name string
		run  func(*testing.T, *rig)
		must bool
	}{
		{"agents are listed with their models", listed, true},
		{"the first turn is streamed", streamed, true},
		{"reasoning is shown", reasoned, false},
		{"an allowed command runs", allowed, false},
		{"a denied command does not", denied, false},
		{"a stop while an approval is open runs nothing", stoppedAsking, false},
		{"a question is answered", questioned, false},
		{"edits are shown", edited, false},
		{"the editor's own tool is called", served, false},
		{"a subagent is shown", delegated, false},
		{"a command runs in a terminal", commanded, false},
		{"a message steers a turn, and one waits for its end", queued, false},
		{"a stop ends a stream", stopped, false},
		{"words are completed", completed, false},
		{"an old session is opened again", reopened, false},
		{"a session is renamed", renamed, false},
		{"a session is archived", archived, false},
		{"a session is deleted", deleted, false},
		{"turns are taken back", rewound, false},
		{"a conversation forks", forked, false},
		{"the gateway comes back", restarted, false},
	} {
		ok := t.Run(s.name, func(t *testing.T) {
			begun := time.Now()
			defer func() {
				name := strings.NewReplacer(" ", "-", "'", "", ",", "").Replace(s.name)
				if t.Failed() {
					name = "FAILED-" + name
				}
				r.page.shot(t, name)
				if t.Failed() {
					r.page.quiet()
				}
				r.wire.judged(t)
				t.Logf("it took %v", time.Since(begun).Round(100*time.Millisecond))
			}()
			s.run(t, r)
		})
		if !ok && s.must {
			t.Fatal("the others need this one")
		}
	}
	for _, line := range r.page.troubles() {
		t.Errorf("the editor met trouble: %s", line)
	}
}

// listed picks the agent, as a person who opens the editor has to.
func listed(t *testing.T, r *rig) {
	until(t, "the editor's word that it is connected", func() (bool, string) { return r.page.logged("Connected; clientId"), "" })
	from := r.wire.len()
	r.page.pick(t, "^Local", "Demo agent")
	_, next := r.wire.wait(t, from, "a new session", asked("createSession"))
	r.page.shows(t, pickers, "Demo agent")
	r.page.shows(t, pickers, "Demo Large|Demo Small")
	r.page.click(t, pickers, "^Demo (Large|Small)")
	r.page.shows(t, pickerRows, "Other Models") // those that were not used yet
	r.page.click(t, pickerRows, "Other Models")
	r.page.shows(t, pickerRows, "Demo Large")
	r.page.shows(t, pickerRows, "Demo Small")
	r.page.shot(t, "models")
	r.page.press(t, "Escape")
	r.wire.wait(t, from, "the subscription to it", asked("subscribe"))
	for _, f := range r.wire.since(next) {
		if f.host && f.Method == "root/sessionAdded" {
			t.Errorf("told of before its first turn: %s", f.raw)
		}
	}
}

// streamed is the first turn of a session, which nobody hears of before.
func streamed(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "say a first word\nstream 100 4 100\nsay the last word")
	_, began := r.wire.wait(t, from, "the prompt", sent("chat/turnStarted"))
	r.page.answers(t, "a first word")
	if got := r.page.last(t); strings.Contains(got, "the last word") {
		t.Errorf("the first words came with the last: %q", got)
	}
	r.page.shot(t, "while-it-streams")
	r.page.answers(t, "the last word")
	r.page.idle(t)
	for _, f := range r.wire.since(from)[:began-from] {
		if f.host && f.Method == "root/sessionAdded" {
			t.Errorf("told of before its first turn: %s", f.raw)
		}
	}
	r.wire.wait(t, began, "the new session", func(f frame) bool { return f.host && f.Method == "root/sessionAdded" })
	r.page.shows(t, sessions, "a first word")
}

func reasoned(t *testing.T, r *rig) {
	from := r.wire.len()
	// The editor keeps what it has drawn when the answer begins, and draws a thought
	// some time after it came.
	r.page.send(t, "think about the weather\nsleep 2000\nsay it rains")
	r.page.answers(t, "it rains")
	r.wire.wait(t, from, "reasoning", said("chat/reasoning"))
	r.page.idle(t)
	r.page.click(t, answers+" "+buttons, "^Finished with 1 step") // folded once the turn is over
	r.page.answers(t, "about the weather")
}

func allowed(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "run echo made > allowed.txt && echo crossed over\nsay after the command")
	r.page.shows(t, buttons, "^Allow")
	r.page.shot(t, "approval")
	if r.project("allowed.txt") != "" {
		t.Error("it ran before it was allowed")
	}
	r.page.click(t, buttons, "^Allow$")
	r.page.answers(t, "after the command")
	r.page.answers(t, "Ran echo made > allowed.txt")
	if got := r.project("allowed.txt"); got != "made\n" {
		t.Errorf("the file has %q", got)
	}
	if f, _ := r.wire.wait(t, from, "the decision", sent("chat/toolCallConfirmed")); !f.Action.Approved {
		t.Errorf("decided %s", f.raw)
	}
	r.page.idle(t)
}

func denied(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "run echo made > denied.txt\nsay after the denial")
	r.page.shows(t, buttons, "^Skip")
	r.page.click(t, buttons, "^Skip$")
	r.page.answers(t, "after the denial")
	if f, _ := r.wire.wait(t, from, "the decision", sent("chat/toolCallConfirmed")); f.Action.Approved {
		t.Errorf("decided %s", f.raw)
	}
	if got := r.project("denied.txt"); got != "" {
		t.Errorf("the denied command made %q", got)
	}
	r.page.idle(t)
}

// stoppedAsking stops a turn that waits for an approval. The editor then sends an
// approval nobody gave, for a turn that is over.
func stoppedAsking(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "run echo made > stopped.txt\nsay after the stop")
	r.page.shows(t, buttons, "^Allow")
	r.page.click(t, stopButton, "")
	_, next := r.wire.wait(t, from, "the stop", sent("chat/turnCancelled"))
	f, next := r.wire.wait(t, next, "the approval that nobody gave", sent("chat/toolCallConfirmed"))
	if !f.Action.Approved {
		t.Errorf("the editor sent %s", f.raw)
	}
	f, _ = r.wire.wait(t, next, "the gateway's answer to that", said("chat/toolCallConfirmed"))
	if !has("rejectionReason")(f) {
		t.Errorf("taken: %s", f.raw)
	}
	r.page.idle(t)
	r.page.send(t, "say still alive")
	r.page.answers(t, "still alive")
	if got := r.project("stopped.txt"); got != "" {
		t.Errorf("the command ran and made %q", got)
	}
	r.page.idle(t)
}

func questioned(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "ask Which colour? | red | blue")
	r.page.shows(t, choices, "red")
	r.page.shot(t, "question")
	r.page.click(t, choices, "blue")
	r.page.answers(t, `Which colour\?[^$]*blue[^$]*blue`) // the choice, and what the agent makes of it
	r.wire.wait(t, from, "the answer", both(sent("chat/inputCompleted"), has(`"blue"`)))
	r.page.idle(t)
}

func edited(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "write notes.txt hello there\nsay it is written")
	r.page.answers(t, "it is written")
	r.page.shows(t, buttons, `1 File\s+\+1\s+-0`)
	if got := r.project("notes.txt"); got != "hello there\n" {
		t.Errorf("the file has %q", got)
	}
	r.wire.wait(t, from, "the edit", both(said("chat/toolCallComplete"), has(`"type":"fileEdit"`)))
	r.page.idle(t)
}

// served has the agent call a tool that the editor offers. No extension that
// knows the language is installed, and the tool says so.
func served(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, `call usages {"symbol":"main","lineContent":"func main() {}","filePath":"main.go"}`)
	r.wire.wait(t, from, "the result", both(sent("chat/toolCallComplete"), has("No reference provider")))
	r.page.answers(t, "No reference provider available")
	r.page.idle(t)
}

func delegated(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "spawn scout say looking around\nsay the scout is back")
	r.page.answers(t, "the scout is back")
	r.page.answers(t, `scout[^$]*Ran subagent`)
	f, next := r.wire.wait(t, from, "the subagent's chat", both(said("chat/toolCallContentChanged"), has(`"type":"subagent"`)))
	r.wire.wait(t, next, "the subscription to it", func(s frame) bool {
		return asked("subscribe")(s) && strings.Contains(string(f.raw), `"resource":"`+s.Params.Channel+`"`)
	})
	r.page.idle(t)
}

func commanded(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "!echo from the terminal; echo made > terminal.txt")
	r.page.answers(t, `^from the terminal`)
	r.wire.wait(t, from, "the subscription to the terminal", func(f frame) bool {
		return asked("subscribe")(f) && strings.HasPrefix(f.Params.Channel, "ahp-terminal:")
	})
	if got := r.project("terminal.txt"); got != "made\n" {
		t.Errorf("the file has %q", got)
	}
	r.page.idle(t)
}

func queued(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "stream 400 4 200\nsay after the stream")
	r.wire.wait(t, from, "the stream", said("chat/delta"))
	r.page.write(t, "say this came later")
	r.page.press(t, "Escape", "Alt+Enter")
	r.wire.wait(t, from, "the message that waits", both(sent("chat/pendingMessageSet"), has(`"queued"`)))
	r.page.send(t, "say this steers")
	r.wire.wait(t, from, "the message that steers", both(sent("chat/pendingMessageSet"), has(`"steering"`)))
	r.page.shot(t, "waiting")
	_, next := r.wire.wait(t, from, "that it was taken", both(said("chat/pendingMessageRemoved"), has(`"steering"`)))
	r.wire.wait(t, next, "the next turn", both(said("chat/turnStarted"), has(`"queuedMessageId"`)))
	r.page.answers(t, "this came later")
	r.page.shows(t, answers, `this steers[^$]*after the stream`)
	r.page.idle(t)
}

func stopped(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.send(t, "stream 100000 4 50\nsay never said")
	r.page.answers(t, "abcdabcd")
	r.page.click(t, stopButton, "")
	_, next := r.wire.wait(t, from, "the stop", sent("chat/turnCancelled"))
	r.wire.wait(t, next, "its echo", said("chat/turnCancelled"))
	r.page.idle(t)
	r.page.send(t, "say after the stopped stream")
	r.page.answers(t, "after the stopped stream")
	if got := strings.Join(r.page.texts(t, answers), "\n"); strings.Contains(got, "never said") {
		t.Errorf("the stream went on: %q", got)
	}
	r.page.idle(t)
}

// completed has the demo agent's words, of which it has none with a slash.
func completed(t *testing.T, r *rig) {
	from := r.wire.len()
	r.page.write(t, "/")
	_, next := r.wire.wait(t, from, "the question for commands", both(asked("completions"), has(`"text":"/"`)))
	r.page.shows(t, suggestions, "/")
	r.page.press(t, "Escape", "Backspace")
	r.page.write(t, "say look at @main")
	_, next = r.wire.wait(t, next, "the question for files", both(asked("completions"), has("@main")))
	r.page.shows(t, suggestions, `main\.go`)
	r.page.shot(t, "completions")
	r.page.press(t, "Tab")
	r.page.press(t, "Enter")
	f, _ := r.wire.wait(t, next, "the prompt", sent("chat/turnStarted"))
	if !has(`/project/main.go"`)(f) || !has(`"attachments"`)(f) {
		t.Errorf("no file is attached: %s", f.raw)
	}
	r.page.answers(t, `look at @main\.go`)
	r.page.idle(t)
}
