package host

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// ErrStore: what happens cannot be stored.
var ErrStore = errors.New("nothing can be stored")

// Health is nil while what happens can be stored, and wraps ErrStore where it
// cannot; its text is for anybody. While writes fail, it waits for one more.
func (h *Host) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	err := h.store.Health(ctx)
	if err == nil {
		return nil
	}
	for _, known := range []struct {
		err  error
		text string
	}{
		{syscall.ENOSPC, "the disk is full"},
		{syscall.EDQUOT, "the disk quota is used up"},
		{syscall.EFBIG, "a file may not grow further"},
		{syscall.EROFS, "the disk is read-only"},
		{syscall.EIO, "the disk reports an error"},
		{context.DeadlineExceeded, "the disk does not answer"},
	} {
		if errors.Is(err, known.err) {
			return fmt.Errorf("%w: %s", ErrStore, known.text)
		}
	}
	return fmt.Errorf("%w: the gateway's log says why", ErrStore)
}
