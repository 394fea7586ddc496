// Package storetest is the contract that every home of data keeps, as a suite.
package storetest

import (
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/store"
)

// Home opens one home of data: the same data each time, after the store it
// returned before was closed.
type Home func() store.Store

// patience bounds every wait of the suite: a sync takes milliseconds, and seconds
// on a busy disk.
const patience = 2 * time.Minute

// Run runs the contract; newHome makes an empty home.
func Run(t *testing.T, newHome func(t *testing.T) Home) {
	tests := []struct {
		name string
		test func(t *testing.T, open Home)
	}{
		{"records come back in order", recordsInOrder},
		{"a batch is whole", wholeBatch},
		{"removals come before what is written", removalsFirst},
		{"reading starts at the record that holds the number", readFromTheMiddle},
		{"pages are bounded in bytes", pagesByBytes},
		{"reads are copies", readsAreCopies},
		{"keys are scanned both ways", scanBothWays},
		{"a dropped log is gone and can begin again", dropLog},
		{"what is not there is not found", notFound},
		{"an empty value is a value", emptyValue},
		{"bad batches are refused", badBatches},
		{"a log takes nothing after a gap until it is continued", noGap},
		{"blobs are named by their hash", blobs},
		{"close writes what is queued", closeFlushes},
		{"a closed store says so", closedStore},
		{"a cancelled read says so", cancelledRead},
		{"a home opened again has all of it", reopen},
		{"many write at once", manyWriters},
		{"readers see whole batches while others write", readWhileWriting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, newHome(t))
		})
	}
}
