package ahp

import (
	"context"
	"strings"
)

// service serves channels beside the root, the sessions and the chats. What it
// says goes through the journal, under its own lock, so that its snapshots agree
// with it.
type service interface {
	// owns reports whether a URI names one of its channels, there or not.
	owns(uri string) bool
	// take makes a snapshot of a channel; an error for one that is not there.
	take(ctx context.Context, uri string) (taken, error)
	// opened finds a channel that is there; its ch is nil while nothing was
	// said on it yet.
	opened(uri string) (held, error)
	// dispatch does what a client says on a channel. errUnchanged and
	// refusals are answered as on a session.
	dispatch(ctx context.Context, a *action, typ string) error
	// released tells that the last connection left a channel.
	released(uri string)
}

// service finds who serves a channel, or nil.
func (f *Front) service(uri string) service {
	if !strings.HasPrefix(uri, rootURI) {
		for _, s := range f.services {
			if s.owns(uri) {
				return s
			}
		}
	}
	return nil
}
