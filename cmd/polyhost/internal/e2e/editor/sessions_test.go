//go:build e2e

package editor

import (
	"strings"
	"testing"
)

// another begins another session, with one turn.
func (r *rig) another(t *testing.T, word string) {
	t.Helper()
	r.page.click(t, newSession, "")
	r.page.shows(t, pickers, "Demo agent")
	r.page.hides(t, answers, ".")
	r.page.send(t, "say "+word)
	r.page.answers(t, word)
	r.page.idle(t)
	r.page.shows(t, sessions, word)
}

// menu picks from the menu of a session in the list.
func (r *rig) menu(t *testing.T, session, item string) {
	t.Helper()
	r.page.do(t, "click", object{"selector": sessions, "text": session, "button": "right"})
	r.page.shows(t, menuItems, item)
	r.page.click(t, menuItems, item)
}

func reopened(t *testing.T, r *rig) {
	r.another(t, "the second session")
	from := r.wire.len()
	r.page.click(t, sessions, "a first word")
	r.page.shows(t, questions, "look at @main.go")
	r.page.answers(t, `look at @main\.go`)
	r.page.shot(t, "reopened")
	r.page.send(t, "say back in the first")
	r.page.answers(t, "back in the first")
	r.page.idle(t)
	r.wire.wait(t, from, "the turn", said("chat/turnComplete"))
}

func renamed(t *testing.T, r *rig) {
	from := r.wire.len()
	r.menu(t, "a first word", "^Rename")
	r.page.do(t, "fill", object{"selector": ".quick-input-widget .quick-input-box input", "text": "A better name"})
	r.page.press(t, "Enter")
	r.page.shows(t, sessions, "A better name")
	r.wire.wait(t, from, "the new title", both(said("session/titleChanged"), has("A better name")))
}

func archived(t *testing.T, r *rig) {
	from := r.wire.len()
	r.menu(t, "the second session", "^Mark as Done")
	r.page.hides(t, sessions, "the second session")
	r.wire.wait(t, from, "that it is archived", both(said("session/isArchivedChanged"), has(`"isArchived":true`)))
}

func deleted(t *testing.T, r *rig) {
	r.another(t, "the third session")
	from := r.wire.len()
	r.menu(t, "the third session", "^Delete")
	r.page.shows(t, dialogButton, "^Delete")
	r.page.shot(t, "delete")
	r.page.click(t, dialogButton, "^Delete$")
	r.page.hides(t, sessions, "the third session")
	r.wire.wait(t, from, "its removal", func(f frame) bool { return f.host && f.Method == "root/sessionRemoved" })
	r.page.shows(t, sessions, "A better name")
}

// checkpoint clicks on what the editor offers above a prompt.
func (r *rig) checkpoint(t *testing.T, prompt, action, label string) {
	t.Helper()
	r.page.do(t, "hover", object{"selector": questions, "text": prompt})
	r.page.click(t, questions+`:has-text("`+prompt+`") .checkpoint-container `+action, label)
}

// rewound goes back in the first session. The editor says so with the next
// prompt.
func rewound(t *testing.T, r *rig) {
	r.page.click(t, sessions, "A better name")
	r.page.answers(t, "back in the first")
	r.checkpoint(t, "back in the first", ".action-label", "Restore")
	r.page.hides(t, questions, "back in the first")
	from := r.wire.len()
	r.page.do(t, "click", object{"selector": inputBox})
	r.page.press(t, "Control+a", "Backspace") // the prompt of the turn that goes
	r.page.send(t, "say on another way")
	_, next := r.wire.wait(t, from, "that turns are to go", sent("chat/truncated"))
	f, _ := r.wire.wait(t, next, "the answer to that", said("chat/truncated"))
	if has("rejectionReason")(f) {
		t.Errorf("refused: %s", f.raw)
	}
	r.page.answers(t, "on another way")
	r.page.idle(t)
}

// forked has the conversation go two ways from before its last turn.
func forked(t *testing.T, r *rig) {
	from := r.wire.len()
	r.checkpoint(t, "on another way", ".action-label", "") // the last of them, which has no words
	r.wire.wait(t, from, "the fork", both(asked("createChat"), has(`"fork"`)))
	r.page.hides(t, questions, "on another way")
	r.page.shows(t, questions, "look at @main.go")
	r.page.send(t, "say in the fork")
	r.page.answers(t, "in the fork")
	r.page.idle(t)
	r.page.shot(t, "fork")
	r.page.click(t, sessions, "A better name")
	r.page.shows(t, questions, "on another way")
	r.page.hides(t, questions, "in the fork")
}

// restarted ends the gateway and starts it again under the editor.
func restarted(t *testing.T, r *rig) {
	from := r.wire.len()
	r.restart(t)
	_, next := r.wire.wait(t, from, "the editor's coming back", asked("reconnect"))
	f, next := r.wire.wait(t, next, "the answer", func(f frame) bool { return f.host && f.Method == "" })
	if !strings.Contains(string(f.Error), "-32008") {
		t.Errorf("a gateway that started anew knows the editor: %s", f.raw)
	}
	_, next = r.wire.wait(t, next, "a new beginning", asked("initialize"))
	r.page.shows(t, sessions, "A better name")
	r.another(t, "a fourth session")
	r.page.click(t, sessions, "A better name")
	r.page.shows(t, questions, "on another way")
	if got := strings.Join(r.page.texts(t, questions), "\n"); strings.Contains(got, "back in the first") {
		t.Errorf("a turn that was taken back has come again: %q", got)
	}
	r.page.send(t, "say after the restart")
	r.page.answers(t, "after the restart")
	r.wire.wait(t, next, "the turn", said("chat/turnComplete"))
	r.page.idle(t)
}
