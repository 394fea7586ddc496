//go:build e2e

package editor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long the editor may take for one thing on a busy machine.
const patience = 3 * time.Minute

// lookEvery is how often the page is looked at while something is waited for.
const lookEvery = 300 * time.Millisecond

// until waits for a condition, which says what it saw instead.
func until(t *testing.T, what string, condition func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(lookEvery) {
		ok, instead := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s; at last there was %q", what, instead)
		}
	}
}

// Parts of the editor's page.
const (
	inputBox     = ".interactive-input-part .monaco-editor"
	pickers      = ".interactive-input-part .chat-input-picker-item"
	pickerRows   = ".action-widget .monaco-list-row"
	questions    = ".interactive-item-container.interactive-request"
	answers      = ".interactive-item-container.interactive-response"
	stopButton   = ".interactive-input-part .codicon-stop-circle"
	buttons      = ".monaco-button"
	choices      = ".chat-question-list-item"
	suggestions  = ".suggest-widget .monaco-list-row"
	sessions     = ".agent-session-item"
	newSession   = ".agent-sessions-new-button-container .monaco-button"
	menuItems    = ".monaco-menu .action-menu-item"
	dialogButton = ".monaco-dialog-box .monaco-button"
)

// page is the editor's page: the driver in the browser.
type page struct {
	in    io.Writer
	shots string // the folder of screenshots

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	console []string
	gone    error
}

type reply struct {
	ID      int             `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Console string          `json:"console"`
}

// listen reads what the driver says until it ends.
func (p *page) listen(out io.Reader, log *os.File) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			p.mu.Lock()
			p.gone = fmt.Errorf("the driver is gone: %w", err)
			for _, c := range p.waiting {
				close(c)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		var r reply
		if json.Unmarshal(line, &r) != nil {
			continue
		}
		p.mu.Lock()
		if r.Console != "" {
			p.console = append(p.console, r.Console)
			fmt.Fprintln(log, r.Console)
		} else if c := p.waiting[r.ID]; c != nil {
			delete(p.waiting, r.ID)
			c <- r
		}
		p.mu.Unlock()
	}
}

// try has the driver do something.
func (p *page) try(verb string, args object) (json.RawMessage, error) {
	answer := make(chan reply, 1)
	p.mu.Lock()
	if p.gone != nil {
		p.mu.Unlock()
		return nil, p.gone
	}
	p.next++
	n := p.next
	p.waiting[n] = answer
	line := object{"id": n, "do": verb}
	for k, v := range args {
		line[k] = v
	}
	_, err := fmt.Fprintln(p.in, encode(line))
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case r, ok := <-answer:
		if !ok {
			return nil, p.gone
		}
		if r.Error != "" {
			return nil, fmt.Errorf("%s %s: %s", verb, encode(args), r.Error)
		}
		return r.Result, nil
	case <-time.After(2 * patience):
		return nil, fmt.Errorf("%s %s: no answer", verb, encode(args))
	}
}

func (p *page) do(t *testing.T, verb string, args object) {
	t.Helper()
	if _, err := p.try(verb, args); err != nil {
		t.Fatal(err)
	}
}

func (p *page) click(t *testing.T, selector, text string) {
	t.Helper()
	p.do(t, "click", object{"selector": selector, "text": text, "last": true})
}

func (p *page) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, k := range keys {
		p.do(t, "press", object{"key": k})
	}
}

// texts are those of the elements in sight.
func (p *page) texts(t *testing.T, selector string) (all []string) {
	t.Helper()
	b, err := p.try("texts", object{"selector": selector})
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// shows waits until an element in sight has a text.
func (p *page) shows(t *testing.T, selector, pattern string) {
	t.Helper()
	wanted := regexp.MustCompile("(?m)" + pattern)
	until(t, fmt.Sprintf("%q in %s", pattern, selector), func() (bool, string) {
		all := strings.Join(p.texts(t, selector), "\n")
		return wanted.MatchString(all), all
	})
}

// hides waits until no element in sight has a text.
func (p *page) hides(t *testing.T, selector, pattern string) {
	t.Helper()
	unwanted := regexp.MustCompile("(?m)" + pattern)
	until(t, fmt.Sprintf("the end of %q in %s", pattern, selector), func() (bool, string) {
		all := p.texts(t, selector)
		return len(all) == 0 || !unwanted.MatchString(strings.Join(all, "\n")), strings.Join(all, "\n")
	})
}

// answers waits until the newest answer has a text.
func (p *page) answers(t *testing.T, pattern string) {
	t.Helper()
	wanted := regexp.MustCompile("(?m)" + pattern)
	until(t, fmt.Sprintf("%q as the answer", pattern), func() (bool, string) {
		last := p.last(t)
		return wanted.MatchString(last), last
	})
}

// idle waits until no turn runs.
func (p *page) idle(t *testing.T) {
	t.Helper()
	until(t, "the end of the turn", func() (bool, string) {
		b, err := p.try("count", object{"selector": stopButton})
		return err == nil && string(b) == "0", string(b)
	})
}

// quiet stops the turn that a scenario which failed may have left running.
func (p *page) quiet() {
	if b, err := p.try("count", object{"selector": stopButton}); err == nil && string(b) != "0" {
		_, _ = p.try("click", object{"selector": stopButton})
	}
}

// write types a prompt, a line of which may not begin a completion.
func (p *page) write(t *testing.T, prompt string) {
	t.Helper()
	p.do(t, "click", object{"selector": inputBox})
	for i, line := range strings.Split(prompt, "\n") {
		if i > 0 {
			p.press(t, "Shift+Enter")
		}
		p.do(t, "type", object{"text": line})
	}
}

// send types a prompt and sends it.
func (p *page) send(t *testing.T, prompt string) {
	t.Helper()
	p.write(t, prompt)
	p.press(t, "Escape", "Enter")
}

// logged tells whether the page has written to its console.
func (p *page) logged(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.console {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// shot keeps a screenshot.
func (p *page) shot(t *testing.T, name string) {
	t.Helper()
	if _, err := p.try("shot", object{"path": filepath.Join(p.shots, name+".png")}); err != nil {
		t.Log(err)
	}
}

type object = map[string]any

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// last is the newest answer.
func (p *page) last(t *testing.T) string {
	t.Helper()
	all := p.texts(t, answers)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// pick picks a row of a picker, which may take some attempts: the rows come
// when the agents are known.
func (p *page) pick(t *testing.T, picker, row string) {
	t.Helper()
	until(t, row+" in the picker", func() (bool, string) {
		p.click(t, pickers, picker)
		var rows []string
		for range 10 {
			rows = p.texts(t, pickerRows)
			if strings.Contains(strings.Join(rows, "\n"), row) {
				p.click(t, pickerRows, row)
				return true, ""
			}
			time.Sleep(lookEvery)
		}
		p.press(t, "Escape")
		return false, strings.Join(rows, "\n")
	})
}

// troubles are the errors that the editor's client has had with the gateway.
func (p *page) troubles() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.console {
		if trouble.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

var trouble = regexp.MustCompile(`pageerror|TypeError: Cannot|is not a function|is not iterable|Invalid time value|Connect failed`)
