// Package listen opens the loopback sockets of the fronts and serves HTTP on
// them.
//
// A socket that other machines could reach is refused unless asked for, and a
// port that is taken is an error that names the port and, where the system
// says, who holds it: it never hops to another port.
//
// It must not know what is served.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// ErrNotLoopback says that the address would be open to other machines.
var ErrNotLoopback = errors.New("address is reachable from other machines: a remote bind must be allowed explicitly")

// PortTakenError says that another socket listens on the address.
type PortTakenError struct {
	Addr   string
	Holder string // like "pid 12 (node)"; empty if the system does not tell
	Err    error
}

func (e *PortTakenError) Error() string {
	s := "address " + e.Addr + " is taken"
	if e.Holder != "" {
		s += " by " + e.Holder
	}
	return s
}

func (e *PortTakenError) Unwrap() error { return e.Err }

// Options say where to listen.
type Options struct {
	Host        string // default 127.0.0.1
	Port        int    // zero: any free one
	AllowRemote bool   // accept a host that is not loopback
}

// Port is the port of the n-th socket over base; a base of zero gives zero,
// which means any free port.
func Port(base, n int) (int, error) {
	if base == 0 {
		return 0, nil
	}
	if base < 0 || base+n > maxPort {
		return 0, fmt.Errorf("listen: port %d is out of range", base+n)
	}
	return base + n, nil
}

// Open listens. Errors: ErrNotLoopback, *PortTakenError, or the system's own.
func Open(ctx context.Context, o Options) (net.Listener, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	addr := net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	if !o.AllowRemote && !isLoopback(o.Host) {
		return nil, fmt.Errorf("listen on %s: %w", addr, ErrNotLoopback)
	}
	lc := net.ListenConfig{Control: setUserTimeout}
	l, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &PortTakenError{Addr: addr, Holder: holder(o.Port), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
