package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout sets userTimeout on a listening socket; those it accepts
// inherit it.
func setUserTimeout(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	}); cerr != nil {
		return cerr
	}
	return err
}
