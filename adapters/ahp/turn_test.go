package ahp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sess = "demo:/311b9b66-642c-42aa-a31d-4ce64ca029f7"

// A session made before anybody types is not in anyone's list; its first turn
// announces it, comes back to its sender with its origin, and streams.
func TestFirstTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	other := g.connect("other")
	p := g.connect("editor")
	chat := p.session(g, sess)
	if want := "ahp-chat://default/ZGVtbzovMzExYjliNjYtNjQyYy00MmFhLWEzMWQtNGNlNjRjYTAyOWY3"; chat != want {
		t.Errorf("default chat is %s, editors compute %s", chat, want)
	}
	if l := other.call("listSessions", object{"channel": rootURI})["items"].([]any); len(l) != 0 {
		t.Errorf("an unused session is listed: %v", l)
	}
	seq := p.dispatch(chat, started("request_1", "say one two three"))
	env := p.echo(seq)
	a := env["action"].(object)
	if env["rejectionReason"] != nil || a["type"] != "chat/turnStarted" || a["turnId"] != "request_1" || a["startedAt"] != "2026-01-02T03:04:05.678Z" {
		t.Errorf("echo is %v", env)
	}
	turn := p.idle(chat, "request_1")
	parts := turn["responseParts"].([]any)
	if len(parts) != 1 || parts[0].(object)["content"] != "one two three" {
		t.Errorf("parts are %v", parts)
	}
	if turn["state"] != "complete" || turn["message"].(object)["model"].(object)["id"] != "demo-large" {
		t.Errorf("turn is %v", turn)
	}
	added, at := other.wait(0, "root/sessionAdded", func(f object) bool { return f["method"] == "root/sessionAdded" })
	row := added["params"].(object)["summary"].(object)
	if row["resource"] != sess || row["provider"] != "demo" {
		t.Errorf("announced as %v", row)
	}
	if row["title"] == "" { // it comes with the turn, which may have been quicker
		other.wait(at, "the summary's title", func(f object) bool {
			return f["method"] == "root/sessionSummaryChanged" && f["params"].(object)["changes"].(object)["title"] == "say one two three"
		})
	}
	items := other.call("listSessions", object{"channel": rootURI})["items"].([]any)
	if len(items) != 1 || items[0].(object)["title"] != "say one two three" {
		t.Errorf("list is %v", items)
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

// The protocol has no plans: the step that is being done shows as activity.
func TestPlanShowsItsStep(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "plan look; mend"))
	at := 0
	for _, step := range []any{"look", nil, "mend", nil} {
		var a object
		if a, at = p.action(at, chat, "chat/activityChanged"); a["activity"] != step {
			t.Errorf("activity is %v, want %v", a["activity"], step)
		}
	}
	p.idle(chat, "t1")
	p.agree(g, chat)
	p.agree(g, sess)
}

func TestApproval(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("one"), g.connect("two")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "run echo hello > made"))
	ready, _ := p.action(0, chat, "chat/toolCallReady")
	if ready["confirmed"] != nil {
		t.Fatalf("nobody allowed that: %v", ready)
	}
	q.subscribe(chat)
	st := p.until(sess, "input needed", func(s object) bool { return s["inputNeeded"] != nil })
	if n := st["inputNeeded"].([]any)[0].(object); n["kind"] != "toolConfirmation" || n["chat"] != chat {
		t.Errorf("needs %v", n)
	}
	p.agree(g, chat)
	p.agree(g, sess)
	seq := q.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action"})
	if e := q.echo(seq); e["rejectionReason"] != nil {
		t.Fatalf("refused: %v", e)
	}
	turn := p.idle(chat, "t1")
	call := turn["responseParts"].([]any)[0].(object)["toolCall"].(object)
	if call["status"] != "completed" || call["confirmed"] != "user-action" || call["success"] != true {
		t.Errorf("call is %v", call)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "made")); err != nil {
		t.Error(err)
	}
	late := p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action"})
	if e := p.echo(late); e["rejectionReason"] == nil {
		t.Errorf("a late answer was taken: %v", e)
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

func TestDenial(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "run touch made\nsay after"))
	ready, _ := p.action(0, chat, "chat/toolCallReady")
	p.echo(p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": false,
		"reason": "denied", "reasonMessage": "not now"}))
	turn := p.idle(chat, "t1")
	call := turn["responseParts"].([]any)[0].(object)["toolCall"].(object)
	if call["status"] != "cancelled" || call["reason"] != "denied" || call["reasonMessage"] != "not now" {
		t.Errorf("call is %v", call)
	}
	p.agree(g, chat)
}

// Editors send an approval milliseconds after a cancel: it must run nothing.
func TestApprovalAfterCancelIsVoid(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "run touch made"))
	ready, _ := p.action(0, chat, "chat/toolCallReady")
	cancel := p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 5})
	allow := p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action"})
	if e := p.echo(cancel); e["rejectionReason"] != nil || e["action"].(object)["type"] != "chat/turnCancelled" {
		t.Errorf("cancel: %v", e)
	}
	if e := p.echo(allow); e["rejectionReason"] == nil {
		t.Errorf("the approval was taken: %v", e)
	}
	if turn := p.idle(chat, "t1"); turn["state"] != "cancelled" {
		t.Errorf("turn is %v", turn)
	}
	p.dispatch(chat, started("t2", "say next"))
	p.idle(chat, "t2")
	if _, err := os.Stat(filepath.Join(g.dir, "made")); err == nil {
		t.Error("the command ran")
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("one"), g.connect("two")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say before\nask Which? | red | blue\nsay after"))
	asked, _ := p.action(0, chat, "chat/inputRequested")
	req := asked["request"].(object)
	question := req["questions"].([]any)[0].(object)
	q.subscribe(chat)
	value := object{"state": "draft", "value": object{"kind": "selected", "value": "red"}}
	q.echo(q.dispatch(chat, object{"type": "chat/inputAnswerChanged", "requestId": req["id"], "questionId": question["id"], "answer": value}))
	p.agree(g, chat)
	p.agree(g, sess)
	seq := p.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": req["id"], "response": "accept",
		"answers": object{question["id"].(string): object{"state": "submitted", "value": object{"kind": "selected", "value": "blue"}}}})
	if e := p.echo(seq); e["rejectionReason"] != nil {
		t.Fatalf("refused: %v", e)
	}
	turn := p.idle(chat, "t1")
	if !strings.Contains(show(turn), `"response":"accept"`) || !strings.Contains(show(turn), "blue") {
		t.Errorf("turn is %s", show(turn))
	}
	if e := q.echo(q.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": req["id"], "response": "decline"})); e["rejectionReason"] == nil {
		t.Errorf("a second answer was taken: %v", e)
	}
	from := p.mark()
	p.dispatch(chat, started("t2", "ask Which? | red | blue"))
	asked, _ = p.action(from, chat, "chat/inputRequested")
	q.echo(q.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": asked["request"].(object)["id"], "response": "cancel"}))
	if turn := p.idle(chat, "t2"); !strings.Contains(show(turn), `"response":"cancel"`) {
		t.Errorf("cancelled, the turn is %s", show(turn))
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

func pending(kind, id, text string) object {
	return object{"type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": object{"text": text, "origin": object{"kind": "user"}}}
}

func TestQueueAndSteer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	q := g.connect("two")
	q.subscribe(chat)
	p.dispatch(chat, started("t1", "say a\nsleep 60000"))
	p.action(0, chat, "chat/responsePart")
	for _, m := range []object{pending("queued", "q1", "say first"), pending("queued", "q2", "say second"), pending("steering", "s1", "say steered")} {
		if e := p.echo(p.dispatch(chat, m)); e["rejectionReason"] != nil {
			t.Fatalf("refused: %v", e)
		}
	}
	p.agree(g, chat)
	p.echo(p.dispatch(chat, object{"type": "chat/queuedMessagesReordered", "order": []string{"q2"}}))
	p.echo(p.dispatch(chat, pending("queued", "q2", "say changed")))
	var same []float64
	for _, a := range []object{pending("queued", "q2", "say changed"), {"type": "chat/queuedMessagesReordered", "order": []string{"q2"}}} {
		same = append(same, p.dispatch(chat, a))
		if e := p.echo(same[len(same)-1]); e["rejectionReason"] != nil {
			t.Errorf("nothing new: %v", e)
		}
	}
	p.agree(g, chat)
	heard := func(seq float64) func(object) bool {
		return func(f object) bool {
			return strings.Contains(show(f), fmt.Sprintf(`{"clientId":"one","clientSeq":%v}`, seq))
		}
	}
	q.wait(0, "what is new", heard(p.dispatch(chat, object{"type": "chat/pendingMessageRemoved", "kind": "queued", "id": "q1"})))
	q.mu.Lock()
	for _, seq := range same {
		if slices.ContainsFunc(q.frames, heard(seq)) {
			t.Errorf("the other client heard of action %v, which changed nothing", seq)
		}
	}
	q.mu.Unlock()
	if e := p.echo(p.dispatch(chat, object{"type": "chat/pendingMessageRemoved", "kind": "queued", "id": "q1"})); e["rejectionReason"] == nil {
		t.Error("removing what does not wait was taken")
	}
	from := p.mark()
	p.echo(p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1}))
	next, _ := p.wait(from, "the queued turn", func(f object) bool { return strings.Contains(show(f), `"queuedMessageId":"q2"`) })
	turn := next["params"].(object)["action"].(object)["turnId"].(string)
	if done := p.idle(chat, turn); !strings.Contains(show(done), "changed") {
		t.Errorf("turn is %s", show(done))
	}
	// Sent to wait while nothing runs: taken at once.
	from = p.mark()
	p.echo(p.dispatch(chat, pending("queued", "q3", "say late")))
	p.wait(from, "the late turn", func(f object) bool { return strings.Contains(show(f), `"queuedMessageId":"q3"`) })
	p.until(chat, "an empty queue", func(s object) bool { return s["queuedMessages"] == nil && s["activeTurn"] == nil })
	p.agree(g, chat)
	p.agree(g, sess)
}

func TestClientTool(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("other")
	chat := p.session(g, sess)
	set := object{"type": "session/activeClientSet", "activeClient": object{"clientId": "editor", "tools": []any{
		object{"name": "usages", "title": "Usages", "description": "finds", "inputSchema": object{"type": "object"}}}, "customizations": []any{}}}
	p.echo(p.dispatch(sess, set))
	if e := p.echo(p.dispatch(sess, set)); e["rejectionReason"] != nil {
		t.Errorf("the same again: %v", e)
	}
	q.subscribe(sess)
	q.subscribe(chat)
	p.dispatch(chat, started("t1", `call usages {"symbol":"main"}`))
	p.until(sess, "the entry", func(s object) bool { return s["inputNeeded"] != nil })
	need := p.state(sess)["inputNeeded"].([]any)[0].(object)
	call := need["toolCall"].(object)
	if need["kind"] != "toolClientExecution" || need["clientId"] != "editor" || call["status"] != "running" ||
		call["contributor"].(object)["clientId"] != "editor" || call["toolInput"] == nil {
		t.Errorf("needs %v", need)
	}
	p.agree(g, chat)
	p.agree(g, sess)
	id := call["toolCallId"]
	complete := object{"type": "chat/toolCallComplete", "turnId": "t1", "toolCallId": id,
		"result": object{"success": true, "pastTenseMessage": "Found", "content": []any{object{"type": "text", "text": "three usages"}}}}
	if e := q.echo(q.dispatch(chat, complete)); e["rejectionReason"] == nil {
		t.Error("another client completed the call")
	}
	if e := p.echo(p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": id, "approved": true, "confirmed": "not-needed"})); e["rejectionReason"] != nil {
		t.Errorf("what editors say first was refused: %v", e)
	}
	p.echo(p.dispatch(chat, complete))
	if turn := p.idle(chat, "t1"); !strings.Contains(show(turn), "three usages") {
		t.Errorf("turn is %s", show(turn))
	}
	p.agree(g, chat)
	p.agree(g, sess)
	from := q.mark()
	p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": sess}})
	q.action(from, sess, "session/activeClientRemoved")
}

func TestFailureAndNotices(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "think hm\nusage 10 20\nplan a; b\nfail broken"))
	turn := p.idle(chat, "t1")
	parts := turn["responseParts"].([]any)
	if last := parts[len(parts)-1].(object); turn["state"] != "error" || last["kind"] != "error" || !strings.Contains(show(last), "broken") {
		t.Errorf("turn is %s", show(turn))
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

func TestSubagent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "spawn helper say from below"))
	added, _ := p.action(0, sess, "session/chatAdded")
	s := added["summary"].(object)
	worker := s["resource"].(string)
	if s["origin"].(object)["kind"] != "tool" || s["interactivity"] != "read-only" {
		t.Errorf("worker is %v", s)
	}
	turn := p.idle(chat, "t1")
	if !strings.Contains(show(turn), `"type":"subagent"`) || !strings.Contains(show(turn), worker) {
		t.Errorf("turn is %s", show(turn))
	}
	w := p.subscribe(worker)
	if !strings.Contains(show(w), "from below") {
		t.Errorf("worker has %s", show(w))
	}
	p.agree(g, chat)
	p.agree(g, sess)
}

// A turn that is sent again is refused, running or over: to hear of it once
// more would empty it in the state of its sender.
func TestTurnSentTwiceIsRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say early\nask Which? | red"))
	p.action(0, chat, "chat/inputRequested")
	p.refused(chat, started("t1", "say early\nask Which? | red"), "started already")
	p.agree(g, chat)
	p.echo(p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1}))
	p.idle(chat, "t1")
	p.refused(chat, started("t1", "say again"), "started already")
	p.agree(g, chat)
}
