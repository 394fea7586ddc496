package ahp

import (
	"context"
	"fmt"
	"testing"
)

// A request whose connection is gone is no failure to report in the log.
func TestRequestsOfLostConnectionsAreNoFailures(t *testing.T) {
	t.Parallel()
	if mapError("any", fmt.Errorf("prompt: %w", context.Canceled)) == nil {
		t.Error("a cancelled request would be logged as a fault of the gateway")
	}
}
