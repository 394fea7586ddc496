package logs

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAListenerHearsWholeRecords(t *testing.T) {
	t.Parallel()
	var book Book
	var out bytes.Buffer
	log := slog.New(book.Handler(slog.NewTextHandler(&out, nil)))
	log.Info("Nobody listens")
	var heard []string
	stop := book.Listen(func(r slog.Record) {
		line := fmt.Sprint(r.Level, " ", r.Message)
		r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		heard = append(heard, line)
	})
	part := log.With("front", "ahp", slog.Group("peer", "addr", "here")).WithGroup("turn")
	part.With("n", 1).Warn("A turn failed", "id", "t1", slog.Group("", "inline", true), slog.Group("why", "code", 7))
	log.Info("Plain")
	log.Debug("Below the level")
	stop()
	stop()
	log.Info("Nobody listens again")
	want := []string{"WARN A turn failed front=ahp peer.addr=here turn.n=1 turn.id=t1 turn.inline=true turn.why.code=7", "INFO Plain"}
	if fmt.Sprint(heard) != fmt.Sprint(want) {
		t.Errorf("heard %q\nwant %q", heard, want)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("the log has %d lines:\n%s", n, out.String())
	}
}

func TestTheNewestWholeLinesAreKept(t *testing.T) {
	t.Parallel()
	var book Book
	line := strings.Repeat("x", 999) + "\n"
	for i := range 3000 {
		if _, err := fmt.Fprintf(&book, "%04d%s", i, line); err != nil {
			t.Fatal(err)
		}
	}
	kept := book.Lines()
	if len(kept) > keptBytes || len(kept) < keptBytes-2*1004 {
		t.Errorf("%d bytes are kept", len(kept))
	}
	if !bytes.HasSuffix(kept, []byte("2999"+line)) || bytes.IndexByte(kept, '\n') != 1003 {
		t.Error("what is kept are not the newest lines")
	}
}
