package demo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// play runs prompts in one conversation, allowing everything, and returns its
// id.
func play(t *testing.T, b agent.Backend, dir string, prompts ...string) string {
	t.Helper()
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := ""
	for _, p := range prompts {
		if err := c.Prompt(t.Context(), agent.Prompt{Turn: p, Text: p}); err != nil {
			t.Fatal(err)
		}
		for over := false; !over; {
			frames, err := c.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				switch f.Kind {
				case agent.ConversationID:
					id = f.Text
				case agent.Permission:
					_ = c.Answer(t.Context(), agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
				case agent.TurnEnd:
					over = true
				}
			}
		}
	}
	return id
}

func TestAKeptConversationIsReadBackAfterARestart(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	first := &demo.Backend{Keep: keep}
	id := play(t, first, dir, "say one two", "write a.txt hello\nusage 3 4", "fail no luck")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := &demo.Backend{Keep: keep}
	list, err := second.Conversations(t.Context(), agent.ConversationQuery{})
	if err != nil || len(list.Conversations) != 1 || list.Conversations[0].ID != id || list.Conversations[0].Title != "say one two" {
		t.Fatalf("%+v, %v", list, err)
	}
	page, err := second.History(t.Context(), agent.HistoryQuery{ID: id})
	if err != nil || len(page.Turns) != 3 || page.Next != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if f := page.Turns[0].Frames; len(f) != 2 || f[0].Text != "one two" || f[1].Status != event.TurnComplete {
		t.Errorf("first turn: %+v", f)
	}
	kinds := []string{}
	for _, f := range page.Turns[1].Frames {
		kinds = append(kinds, string(f.Kind))
	}
	if got := strings.Join(kinds, " "); got != "tool_start tool_end usage turn_end" {
		t.Errorf("second turn: %s", got)
	}
	if f := page.Turns[2].Frames; len(f) != 1 || f[0].Status != event.TurnFailed || f[0].Error == nil {
		t.Errorf("third turn: %+v", f)
	}
}

func TestAForkBeginsWithTheTurnsOfItsConversation(t *testing.T) {
	t.Parallel()
	b := &demo.Backend{Keep: t.TempDir()}
	dir := t.TempDir()
	id := play(t, b, dir, "say one", "say two")
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{dir}, Resume: id, Fork: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	frames, err := c.Recv(t.Context())
	if err != nil || frames[0].Kind != agent.ConversationID || frames[0].Text == id {
		t.Fatalf("%+v, %v", frames, err)
	}
	page, err := b.History(t.Context(), agent.HistoryQuery{ID: frames[0].Text})
	if err != nil || len(page.Turns) != 2 || page.Turns[1].Prompt != "say two" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestWhatIsNoConversationIsNotRead(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	for name, text := range map[string]string{"empty.jsonl": "", "noise.jsonl": "[[[\n", "other.txt": "{}\n", "cut.jsonl": `{"id":"x`} {
		if err := os.WriteFile(filepath.Join(keep, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &demo.Backend{Keep: keep}
	if list, err := b.Conversations(t.Context(), agent.ConversationQuery{}); err != nil || len(list.Conversations) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, id := range []string{"empty", "noise", "", "../" + filepath.Base(keep) + "/noise", strings.Repeat("a", 300)} {
		if _, err := b.History(t.Context(), agent.HistoryQuery{ID: id}); err == nil {
			t.Errorf("%q was read", id)
		}
	}
	if _, err := (&demo.Backend{}).Conversations(t.Context(), agent.ConversationQuery{}); err != agent.ErrUnsupported {
		t.Errorf("without a place to keep: %v", err)
	}
}
