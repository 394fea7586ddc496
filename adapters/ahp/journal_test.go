package ahp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func testJournal() *journal { return newJournal(0, func(uint64) {}) }

// A connection that is behind when it asks for a channel gets it once it has
// caught up, and is not taken for one that is lost.
func TestAClientThatIsBehindMaySubscribe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, c := testJournal(), &conn{}
		j.mu.Lock()
		j.fallBack(c, 0)
		j.mu.Unlock()
		held := make(chan error, 1)
		go func() {
			_, err := j.hold(t.Context(), c)
			held <- err
		}()
		synctest.Wait()
		select {
		case err := <-held:
			t.Fatalf("held at once: %v", err)
		default:
		}
		if _, _, ok := j.pending(c, 0); !ok {
			t.Fatal("lost")
		}
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := j.hold(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("a request that ended waits: %v", err)
		}
	})
}

// Between its snapshot and its first action a client counts as one that
// watches: what nobody watches is let go of.
func TestWhoIsAboutToJoinWatches(t *testing.T) {
	t.Parallel()
	j, c := testJournal(), &conn{}
	ch := j.open("demo:/x")
	if j.watched(ch) {
		t.Fatal("watched by nobody")
	}
	_, pos := j.promise(ch)
	if !j.watched(ch) {
		t.Error("the newcomer does not count")
	}
	j.join(c, []taken{{ch: ch, pos: pos}})
	if left := j.detach(ch, c); left != 0 || j.watched(ch) {
		t.Errorf("%d are left", left)
	}
	if _, _, ok := j.replay(map[*channel]int{ch: 1}, 0); !ok || !j.watched(ch) {
		t.Error("who comes back does not count")
	}
}

// What is disposed of while a client subscribes to it takes the client nothing
// else away.
func TestAChannelMayEndWhileItIsJoined(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("one"), g.connect("two")
	p.session(g, sess)
	q.subscribe(sess)
	for i := range 20 {
		side := "ahp-chat:/side-" + string(rune('a'+i))
		p.call("createChat", object{"channel": sess, "chat": side})
		q.next++
		from := q.mark()
		id := float64(q.next)
		q.send(object{"jsonrpc": "2.0", "id": id, "method": "subscribe", "params": object{"channel": side}})
		p.call("disposeChat", object{"channel": side})
		q.wait(from, "the answer to subscribe", func(f object) bool { return f["id"] == id })
		q.action(from, sess, "session/chatRemoved")
	}
	q.call("ping", object{})
	q.agree(g, sess)
}
