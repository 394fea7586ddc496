package listen

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVanishedPeersAreNoticed(t *testing.T) {
	t.Parallel()
	l := open(t)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	_ = raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err != nil || ms != int(userTimeout.Milliseconds()) {
		t.Fatalf("accepted connections give up after %d ms, %v", ms, err)
	}
}
