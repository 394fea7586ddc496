package wiretest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// skip passes the frames that <~ has matched already.
func (c *client) skip() {
	for c.next < len(c.frames) && c.frames[c.next].matched {
		c.next++
	}
}

func expectNext(exact bool) func(*run, step, *client, string) error {
	return func(r *run, _ step, c *client, rest string) error {
		p, err := newPattern(rest, exact)
		if err != nil {
			return err
		}
		return c.await(r.timeout, func() (bool, error) {
			if c.skip(); c.next == len(c.frames) {
				return false, nil
			}
			caps, err := p.match(c.frames[c.next].data)
			if err != nil {
				return false, fmt.Errorf("the next frame differs: %w", err)
			}
			r.capture(caps)
			c.next++
			return true, c.settle(c.next - 1)
		})
	}
}

func expectLater(exact bool) func(*run, step, *client, string) error {
	return func(r *run, _ step, c *client, rest string) error {
		p, err := newPattern(rest, exact)
		if err != nil {
			return err
		}
		_, err = r.findLater(c, p)
		return err
	}
}

// findLater passes frames until one matches and returns its index.
func (r *run) findLater(c *client, p pattern) (int, error) {
	looked, found := c.next, -1
	err := c.await(r.timeout, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			if c.frames[looked].matched {
				continue
			}
			if caps, err := p.match(c.frames[looked].data); err == nil {
				r.capture(caps)
				c.next, found = looked+1, looked
				return true, c.settle(looked)
			}
		}
		return false, nil
	})
	return found, err
}

func expectAnywhere(r *run, _ step, c *client, rest string) error {
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	looked := 0
	return c.await(r.timeout, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			if c.frames[looked].matched {
				continue
			}
			if caps, err := p.match(c.frames[looked].data); err == nil {
				r.capture(caps)
				return true, c.settle(looked)
			}
		}
		return false, nil
	})
}

func forbid(_ *run, st step, c *client, rest string) error {
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	c.banned = append(c.banned, ban{p, c.next, st.line})
	return nil
}

func expectText(r *run, _ step, c *client, rest string) error {
	re, err := regexp.Compile(rest)
	if err != nil {
		return err
	}
	return c.await(r.timeout, func() (bool, error) {
		if c.skip(); c.next == len(c.frames) {
			return false, nil
		}
		if !re.Match(c.frames[c.next].data) {
			return false, errors.New("the next frame differs")
		}
		c.next++
		return true, c.settle(c.next - 1)
	})
}

// expectConcat reads "PATH of PATTERN until PATTERN is TEXT".
func expectConcat(r *run, _ step, c *client, rest string) error {
	form := errors.New("want: PATH of PATTERN until PATTERN is STRING")
	path, rest, ok := strings.Cut(rest, " of ")
	if !ok {
		return form
	}
	values := make([]any, 3)
	for i, word := range []string{"until", "is", ""} {
		v, after, err := decode(rest)
		if err != nil {
			return err
		}
		values[i] = v
		if rest, ok = strings.CutPrefix(after, word); !ok {
			return form
		}
	}
	if rest != "" {
		return form
	}
	from := c.next
	end, err := r.findLater(c, pattern{value: values[1]})
	if err != nil {
		return err
	}
	of := pattern{value: values[0]}
	var whole strings.Builder
	c.mu.Lock()
	for i := from; i < end; i++ {
		if _, err := of.match(c.frames[i].data); err != nil {
			continue
		}
		v, _, _ := decode(string(c.frames[i].data))
		s, ok := lookup(v, strings.TrimSpace(path)).(string)
		if !ok {
			c.mu.Unlock()
			return fmt.Errorf("frame %d has no text at %s", i+1, path)
		}
		c.frames[i].matched = true
		whole.WriteString(s)
	}
	c.mu.Unlock()
	caps := map[string]any{}
	if err := (pattern{}).compare(values[2], whole.String(), "the pieces put together", caps); err != nil {
		return err
	}
	r.capture(caps)
	return nil
}

// expectQuiet reads "DURATION [PATTERN]": nothing (like that) comes.
func expectQuiet(r *run, _ step, c *client, rest string) error {
	word, rest, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(word)
	if err != nil {
		return err
	}
	var p *pattern
	if rest != "" {
		q, err := newPattern(rest, false)
		if err != nil {
			return err
		}
		p = &q
	}
	looked := c.next
	err = c.await(d, func() (bool, error) {
		for ; looked < len(c.frames); looked++ {
			f := c.frames[looked]
			if f.matched {
				continue
			}
			if p != nil {
				if _, err := p.match(f.data); err != nil {
					continue
				}
			}
			return false, fmt.Errorf("frame %d breaks the quiet", looked+1)
		}
		return false, nil
	})
	if errors.Is(err, errTimeout) {
		return nil
	}
	return err
}

func (c *client) lastFrame() (frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last < 0 {
		return frame{}, errors.New("no frame was matched yet")
	}
	return c.frames[c.last], nil
}

func expectID(r *run, _ step, c *client, rest string) error {
	f, err := c.lastFrame()
	if err != nil {
		return err
	}
	p, err := newPattern(rest, false)
	if err != nil {
		return err
	}
	caps := map[string]any{}
	if err := p.compare(p.value, f.id, "id", caps); err != nil {
		return err
	}
	r.capture(caps)
	return nil
}

func expectEvent(_ *run, _ step, c *client, rest string) error {
	f, err := c.lastFrame()
	if err == nil && f.event != rest {
		err = fmt.Errorf("the event is %q", f.event)
	}
	return err
}

func expectStatus(_ *run, _ step, c *client, rest string) error {
	if strconv.Itoa(c.status) != rest {
		return fmt.Errorf("the status is %d", c.status)
	}
	return nil
}

// expectHeader reads "NAME REGEXP"; a regexp of "-" wants it absent.
func expectHeader(_ *run, _ step, c *client, rest string) error {
	name, form, _ := strings.Cut(rest, " ")
	got := c.header.Values(name)
	if form == "-" {
		if len(got) > 0 {
			return fmt.Errorf("the header is %q", got)
		}
		return nil
	}
	re, err := regexp.Compile(strings.TrimSpace(form))
	if err != nil {
		return err
	}
	if len(got) == 0 || !re.MatchString(strings.Join(got, ", ")) {
		return fmt.Errorf("the header is %q", got)
	}
	return nil
}

// finish waits for the end of the connection and passes what is left.
func (r *run) finish(c *client) error {
	err := c.await(r.timeout, func() (bool, error) { return c.ended, nil })
	if err != nil {
		return fmt.Errorf("the connection does not end: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = len(c.frames)
	return c.settle(c.next)
}

// expectClose reads "CODE [REGEXP]".
func expectClose(r *run, _ step, c *client, rest string) error {
	code, reason, _ := strings.Cut(rest, " ")
	re, err := regexp.Compile(strings.TrimSpace(reason))
	if err != nil {
		return err
	}
	if err := r.finish(c); err != nil {
		return err
	}
	var ce *websocket.CloseError
	if !errors.As(c.endErr, &ce) {
		return fmt.Errorf("no close frame: %v", c.endErr)
	}
	if strconv.Itoa(ce.Code) != code || !re.MatchString(ce.Text) {
		return fmt.Errorf("closed with %d %q", ce.Code, ce.Text)
	}
	return nil
}

func expectEnd(r *run, _ step, c *client, _ string) error { return r.finish(c) }
