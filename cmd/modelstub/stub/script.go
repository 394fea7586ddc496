package stub

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// role is who said a message, in neutral terms.
type role string

const (
	user      role = "user"
	assistant role = "assistant"
	toolRole  role = "tool" // results of calls
)

// message is one message of a conversation as the script sees it.
type message struct {
	role   role
	text   string
	images int
}

// kind says what a piece of an answer is.
type kind int

const (
	text kind = iota
	think
	call
	stop  // the answer ends for a reason other than being complete
	fail  // an HTTP error instead of an answer
	cut   // the connection is dropped
	hang  // nothing more is said
	usage // figures for the answer
)

// The reasons of a stop.
const (
	refused   = "refused"
	maxTokens = "max_tokens"
)

// piece is a part of an answer.
type piece struct {
	kind   kind
	chunks []string      // text and think
	pause  time.Duration // after each chunk
	call   toolCall
	reason string // of a stop
	status int    // of a failure; 0 is the dialect's usual one
	after  int    // seconds in Retry-After; 0 gives none
	long   bool   // the failure says that the context is too long
	in     int64  // usage
	out    int64
}

var directive = regexp.MustCompile(`^\s*(say \d+ words?|slow \d+( \d+)?|text: .+|ask|think|images|plan|hang|refuse|maxtok|overflow|failonce` +
	`|fail( \d{3}( \d+)?)?|cut \d+|usage \d+ \d+|(text\+)?(run|write|edit|read|agent): .+|tool: \S+( .+)?|parallel: .+)\s*$`)

// script finds the step to play.
type script struct {
	step   string // "" when there is no script
	over   bool   // every step was played
	source string // the message the script is in
}

// next reads the script out of a conversation: a step was played for each run
// of tool results that follows it.
func next(conversation []message) script {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].role != user {
			continue
		}
		var steps []string
		for line := range strings.Lines(conversation[i].text) {
			if directive.MatchString(strings.TrimRight(line, "\r\n")) && len(steps) < maxSteps {
				steps = append(steps, strings.TrimSpace(line))
			}
		}
		if len(steps) == 0 {
			continue
		}
		played, before := 0, role("")
		for _, m := range conversation[i+1:] {
			if m.role == toolRole && before != toolRole {
				played++
			}
			before = m.role
		}
		if played >= len(steps) {
			return script{over: true, source: conversation[i].text}
		}
		return script{step: steps[played], source: conversation[i].text}
	}
	return script{}
}

// lastResult is the newest text of a tool.
func lastResult(conversation []message) string {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].role == toolRole {
			return conversation[i].text
		}
	}
	return ""
}

func images(conversation []message) (n int) {
	for _, m := range conversation {
		n += m.images
	}
	return n
}

// answer turns the step of a request into pieces.
func (s *Server) answer(r *request, sc script) []piece {
	verb, rest, _ := strings.Cut(sc.step, " ")
	arg := strings.Fields(rest)
	switch verb {
	case "":
		if !sc.over {
			return says("Nothing ", "to ", "do.")
		}
		result := strings.Join(strings.Fields(lastResult(r.messages)), " ")
		if len(result) > quoted {
			result = strings.ToValidUTF8(result[:quoted], "")
		}
		if result == "" {
			return says("Done.")
		}
		return says("Done. ", "The last tool said: ", result)
	case "say":
		return []piece{{kind: text, chunks: words(number(arg, 0))}}
	case "slow":
		pause := slowPause
		if len(arg) > 1 {
			pause = time.Duration(number(arg, 1)) * time.Millisecond
		}
		return []piece{{kind: text, chunks: words(number(arg, 0)), pause: pause}}
	case "text:":
		return says(strings.SplitAfter(strings.ReplaceAll(rest, `\n`, "\n"), " ")...)
	case "ask":
		return says("Which one ", "do you mean?")
	case "think":
		return append([]piece{{kind: think, chunks: []string{"The question ", "is short, ", "so is the answer."}}}, says("Forty", "-two.")...)
	case "images":
		return says(fmt.Sprintf("There are %d images.", images(r.messages)))
	case "fail":
		return []piece{{kind: fail, status: number(arg, 0), after: number(arg, 1)}}
	case "overflow":
		return []piece{{kind: fail, status: 400, long: true}}
	case "failonce":
		if s.first(sc.source) {
			return []piece{{kind: fail}}
		}
		return says("The second ", "try worked.")
	case "cut":
		return []piece{{kind: text, chunks: words(number(arg, 0)), pause: 20 * time.Millisecond}, {kind: cut}}
	case "hang":
		return []piece{{kind: hang}}
	case "refuse":
		return []piece{{kind: stop, reason: refused}}
	case "maxtok":
		return []piece{{kind: text, chunks: words(3)}, {kind: stop, reason: maxTokens}}
	case "usage":
		return append([]piece{{kind: usage, in: int64(number(arg, 0)), out: int64(number(arg, 1))}}, says("Counted.")...)
	}
	return calls(r, sc.step)
}

// calls are the pieces of a step that calls tools.
func calls(r *request, step string) (pieces []piece) {
	if rest, ok := strings.CutPrefix(step, "text+"); ok {
		pieces, step = says("First ", "a call."), rest
	}
	steps := []string{step}
	if all, ok := strings.CutPrefix(step, "parallel: "); ok {
		steps = strings.Split(all, "&&")
	}
	for _, one := range steps {
		one = strings.TrimSpace(one)
		if c, ok := r.callFor(one); ok {
			pieces = append(pieces, piece{kind: call, call: c})
		} else {
			pieces = append(pieces, says(fmt.Sprintf("The agent declared no tool for %q.", one))...)
		}
	}
	return pieces
}

func says(chunks ...string) []piece { return []piece{{kind: text, chunks: chunks}} }

// alphabet are the words of answers that only need to be words.
var alphabet = strings.Fields(`alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike
	november oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu`)

func words(n int) []string {
	out := make([]string, min(n, maxWords))
	for i := range out {
		out[i] = alphabet[i%len(alphabet)]
		if i < len(out)-1 {
			out[i] += " "
		}
	}
	return out
}

func number(args []string, i int) int {
	if i >= len(args) {
		return 0
	}
	n, _ := strconv.Atoi(args[i])
	return n
}
