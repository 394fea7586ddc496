//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/sdk"
)

// The clock is an agent whose every delta is the moment at which it was said,
// in nanoseconds of the machine's clock. Asked for "N EVERY" it says N of them,
// one each EVERY; asked for "interrupted" it says when it was last interrupted.
const clockName = "clock"

// pipeVar asks this binary to say the same straight to its standard output.
const pipeVar = "POLYHOST_BENCH_PIPE"

func serveClock() {
	if err := sdk.Serve(clock{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pipeClock(text string) {
	_ = tick(context.Background(), text, func(now string) error {
		_, err := fmt.Println(now)
		return err
	})
}

// tick says the time as the text asks, on a schedule that lateness does not move.
func tick(ctx context.Context, text string, say func(string) error) error {
	var n int
	var every time.Duration
	var unit string
	if _, err := fmt.Sscanf(text, "%d %s", &n, &unit); err != nil {
		return err
	}
	every, err := time.ParseDuration(unit)
	if err != nil {
		return err
	}
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for range n {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := say(strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
			return err
		}
		next = next.Add(every)
		timer.Reset(time.Until(next))
	}
	return nil
}

type clock struct{}

func (clock) Info(context.Context) (agent.Info, error) {
	return agent.Info{Name: clockName, Title: "Clock", Version: "1"}, nil
}

func (clock) Open(context.Context, agent.Open) (agent.Conversation, error) {
	return &clockConversation{out: outbox.New()}, nil
}

func (clock) Close() error { return nil }

type clockConversation struct {
	out *outbox.Outbox
	wg  sync.WaitGroup

	mu          sync.Mutex
	stop        context.CancelFunc
	interrupted time.Time
}

func (c *clockConversation) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	at := c.interrupted
	c.wg.Go(func() {
		defer cancel()
		say := func(now string) error {
			return c.out.Put(ctx, agent.Frame{Kind: agent.TextDelta, Part: p.Turn, Text: now})
		}
		status := event.TurnComplete
		if p.Text == "interrupted" {
			_ = say(strconv.FormatInt(at.UnixNano(), 10))
		} else if err := tick(ctx, p.Text, say); errors.Is(err, context.Canceled) {
			status = event.TurnCancelled
		}
		_ = c.out.Put(context.Background(), agent.Frame{Kind: agent.TurnEnd, Turn: p.Turn, Status: status})
	})
	return nil
}

func (c *clockConversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = time.Now()
	if c.stop != nil {
		c.stop()
	}
	return nil
}

func (c *clockConversation) Answer(context.Context, agent.Answer) error { return nil }

func (c *clockConversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

func (c *clockConversation) Close() error {
	_ = c.Interrupt(context.Background())
	c.out.Close(io.EOF)
	c.wg.Wait()
	return nil
}

// talker is an agent in this process that answers each prompt with a thousand
// words in parts of a hundred, for filling a home.
type talker struct{ clock }

func (talker) Open(context.Context, agent.Open) (agent.Conversation, error) {
	return &talkerConversation{clockConversation{out: outbox.New()}}, nil
}

type talkerConversation struct{ clockConversation }

func (c *talkerConversation) Prompt(ctx context.Context, p agent.Prompt) error {
	for part := range 10 {
		for range 100 {
			if err := c.out.Put(ctx, agent.Frame{Kind: agent.TextDelta, Part: strconv.Itoa(part), Text: "lorem ipsum dolor sit "}); err != nil {
				return err
			}
		}
	}
	return c.out.Put(ctx, agent.Frame{Kind: agent.TurnEnd, Turn: p.Turn, Status: event.TurnComplete})
}
