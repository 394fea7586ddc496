package event

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/core/id"
)

// Every kind of event comes back from disk as it was.
func TestEventsAreStoredWhole(t *testing.T) {
	exit := 3
	text := "x"
	yes := true
	m := Message{ID: id.New(), At: time.UnixMilli(5).UTC(), Text: "hi", By: Actor{"ahp", "c", "n", "user:u"}, Turn: id.New(), Key: "k",
		Attachments: []Attachment{{Kind: AttachImage, MIME: "image/png", Data: []byte{1, 2}}}, Rich: json.RawMessage(`{"a":1}`)}
	for _, body := range []Body{
		&SessionCreated{Info: SessionInfo{ID: id.New(), Dirs: []string{"/w"}, Settings: Settings{Mode: ModePlan}}, Default: id.New()},
		&SessionUpdated{Title: &text, Archived: &yes, Meta: map[string]json.RawMessage{"a.b": json.RawMessage(`1`)}},
		&ChatAdded{Info: ChatInfo{ID: id.New(), Origin: Origin{Kind: OriginSubagent, Call: "c"}}},
		&ChatUpdated{Conversation: &text},
		&ChatRemoved{By: Gateway},
		&ClientToolsSet{Client: Gateway, Tools: []ClientTool{{Name: "t", Schema: json.RawMessage(`{}`)}}},
		&DraftChanged{Text: "d"},
		&TurnStarted{Message: m, FromQueue: true},
		&TurnEnded{Status: TurnFailed, Error: &Error{Code: "c", Message: "m"}, Duration: time.Second, Usage: Usage{Input: 3}},
		&MessageQueued{Message: m, Steer: true},
		&MessageUpdated{Message: m},
		&MessageRemoved{ID: id.New(), Why: RemovedSteered, Turn: id.New()},
		&QueueReordered{Order: []id.ID{id.New()}},
		&PlanUpdated{Items: []PlanItem{{ID: "1", Text: "a", Status: PlanDone}}},
		&UsageReported{Usage: Usage{Input: 1, Output: 2, CostUSD: 0.5, Model: "m"}},
		&ContextReported{Used: 1, Window: 2},
		&PartStarted{Part: Part{ID: id.New(), Kind: PartTool, Tool: &Tool{Call: "c", Status: CallStreaming, Output: TextOf("o")}}},
		&PartDelta{Part: id.New(), Field: FieldStderr, Text: "e"},
		&PartEnded{Part: id.New(), Text: "all", Cut: true},
		&ToolReady{Part: id.New(), Input: json.RawMessage(`{"a":1}`), Tag: TagExec, Edits: []FileEdit{{Path: "/w/a", Before: &text}}},
		&ToolRunning{Part: id.New(), Allowed: "person", By: Gateway},
		&ToolLinked{Part: id.New(), Child: id.New()},
		&ToolProgress{Part: id.New(), Text: "looking"},
		&ToolEnded{Part: id.New(), Status: CallFailed, ExitCode: &exit, Refused: &Refusal{Code: RefusedTimeout}},
		&InteractionOpened{Interaction: Interaction{ID: id.New(), Kind: Question, Questions: []QuestionItem{{ID: "1", Text: "?", Options: []QuestionOption{{Label: "a"}}}}}},
		&InteractionResolved{ID: id.New(), Of: Approval, Resolution: Resolution{Outcome: Allowed, Scope: ScopeOnce}},
	} {
		e := &Event{Seq: 7, At: time.UnixMilli(1234).UTC(), Chat: id.New(), Turn: id.New(), Body: body}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Event)
		if err := json.Unmarshal(b, got); err != nil {
			t.Errorf("%s: %v", body.Kind(), err)
		} else if !reflect.DeepEqual(e, got) {
			t.Errorf("%s comes back as\n%+v, was\n%+v", body.Kind(), got.Body, body)
		}
		if bodies[body.Kind()] == nil {
			t.Errorf("%s is not registered", body.Kind())
		}
	}
}

func TestAnEventOfANewerGatewayIsNamed(t *testing.T) {
	err := json.Unmarshal([]byte(`{"seq":1,"at":0,"kind":"warp.engaged","body":{}}`), new(Event))
	if !errors.Is(err, ErrUnknownKind) {
		t.Errorf("got %v", err)
	}
}

// A Text that was handed out keeps its bytes while its owner goes on.
func TestTextIsSharedSafely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var owner Text
		var want string
		type taken struct {
			text Text
			want string
		}
		var all []taken
		for _, piece := range rapid.SliceOf(rapid.String()).Draw(t, "pieces") {
			owner = owner.Append(piece)
			want += piece
			all = append(all, taken{owner, want})
			if rapid.Bool().Draw(t, "second continuation") {
				other := owner.Clip().Append("other")
				all = append(all, taken{other, want + "other"})
			}
		}
		for _, x := range all {
			if x.text.String() != x.want {
				t.Fatalf("%q was handed out and is %q", x.want, x.text)
			}
		}
	})
}
