package boltstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/boltstore"
	"github.com/polyhost/polyhost/core/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHome(t *testing.T) storetest.Home {
	dir := t.TempDir()
	return func() store.Store {
		s, err := boltstore.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestContract(t *testing.T) { storetest.Run(t, newHome) }

func TestKilledWriterKeepsWhatItAcknowledged(t *testing.T) {
	storetest.RunCrash(t, func(dir string) (store.Store, error) { return boltstore.Open(dir) })
}
