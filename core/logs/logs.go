// Package logs lets clients see what the gateway logs: the newest lines, and
// records as they come.
//
// Ordering: that of the calls. Loss: lines older than the kept bytes are
// forgotten. Blocking: a listener runs inside the call that logs, so it must
// hand on without waiting and must not log. Without listeners a record costs one
// look at a counter more than without this package.
package logs

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// Book is one program's log. The zero value is ready.
type Book struct {
	listeners atomic.Pointer[[]*listener] // nil while there are none; replaced

	mu    sync.Mutex
	lines bytes.Buffer
}

type listener struct{ hear func(slog.Record) }

// Write keeps lines; the log is to be written here beside where it goes.
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines.Write(p)
	if over := b.lines.Len() - keptBytes; over > 0 {
		b.lines.Next(over)
		_, _ = b.lines.ReadBytes('\n') // the rest of a line that lost its beginning
	}
	return len(p), nil
}

// Lines are the newest lines, in the format of the log.
func (b *Book) Lines() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.lines.Bytes())
}

// Listen calls hear with each record that is logged until stop, with all its
// attributes: those of groups have the group's name and a dot before theirs.
func (b *Book) Listen(hear func(slog.Record)) (stop func()) {
	l := &listener{hear}
	b.change(func(all []*listener) []*listener { return append(all, l) })
	return func() {
		b.change(func(all []*listener) []*listener {
			return slices.DeleteFunc(all, func(other *listener) bool { return other == l })
		})
	}
}

func (b *Book) change(f func([]*listener) []*listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*listener
	if old := b.listeners.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = f(all); len(all) == 0 {
		b.listeners.Store(nil)
		return
	}
	b.listeners.Store(&all)
}

// Handler gives what next handles to the listeners, too.
func (b *Book) Handler(next slog.Handler) slog.Handler { return handler{book: b, next: next} }

type handler struct {
	book   *Book
	next   slog.Handler
	attrs  []slog.Attr // flat
	prefix string
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if all := h.book.listeners.Load(); all != nil {
		whole := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		whole.AddAttrs(h.attrs...)
		r.Attrs(func(a slog.Attr) bool {
			whole.AddAttrs(flat(nil, h.prefix, a)...)
			return true
		})
		for _, l := range *all {
			l.hear(whole.Clone())
		}
	}
	return h.next.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next, h.attrs = h.next.WithAttrs(attrs), slices.Clip(h.attrs)
	for _, a := range attrs {
		h.attrs = flat(h.attrs, h.prefix, a)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	if name != "" {
		h.prefix += name + "."
	}
	return h
}

// flat appends an attribute, and those of a group one by one.
func flat(to []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		if a.Key == "" {
			return to
		}
		return append(to, slog.Attr{Key: prefix + a.Key, Value: v})
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range v.Group() {
		to = flat(to, prefix, inner)
	}
	return to
}
