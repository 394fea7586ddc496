package ws

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzBytesFromThePeer sends any bytes after the handshake: the connection must
// end with a reason, and only whole frames may come back.
func FuzzBytesFromThePeer(f *testing.F) {
	for _, s := range []string{
		"", "\x81\x80\x00\x00\x00\x00", "\x81\x82\x01\x02\x03\x04{}", "\x01\x81\x00\x00\x00\x00a\x80\x81\x00\x00\x00\x00b",
		"\x88\x82\x00\x00\x00\x00\x03\xe8", "\x89\x85\x00\x00\x00\x00hello", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "\xff\xff\xff",
	} {
		f.Add([]byte(s))
	}
	g := serve(f, Options{ReadLimit: 1000}, echo)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "ws://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		r := bufio.NewReader(c)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(res, err)
		}
		_, _ = c.Write(data)
		_ = c.(*net.TCPConn).CloseWrite()
		out, _ := io.ReadAll(r) // a reset is a fair answer to garbage
		<-(<-g.conns).Done()
		if e := g.end(t); e.Code == 0 {
			t.Fatalf("ended without a code: %v", e)
		}
		for len(out) > 0 {
			n := 2 + int(out[1]&0x7f)
			if out[1] == 126 && len(out) >= 4 {
				n = 4 + int(out[2])<<8 + int(out[3])
			}
			if out[0]&0x70 != 0 || n > len(out) {
				t.Fatalf("not a whole frame: % x", out)
			}
			out = out[n:]
		}
	})
}
