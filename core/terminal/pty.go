package terminal

import (
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openPTY opens a pseudoterminal whose near end can be read with a deadline
// and be closed under a reader.
func openPTY(cols, rows int) (near, far *os.File, err error) {
	blocking, far, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a pseudoterminal: %w", err)
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, true); err != nil {
			unix.Close(fd)
		}
	}
	if err == nil {
		near = os.NewFile(uintptr(fd), "pseudoterminal")
		if err = setSize(near, cols, rows); err != nil {
			near.Close()
		}
	}
	if err != nil {
		far.Close()
		return nil, nil, fmt.Errorf("prepare a pseudoterminal: %w", err)
	}
	return near, far, nil
}

// setSize tells the size, in characters, and through it the programs.
func setSize(f *os.File, cols, rows int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
	if err != nil {
		return err
	}
	return failed
}
