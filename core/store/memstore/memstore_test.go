package memstore_test

import (
	"testing"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
	"github.com/polyhost/polyhost/core/store/storetest"
)

func newHome(*testing.T) storetest.Home {
	s := memstore.New()
	return func() store.Store {
		s = s.Reopen()
		return s
	}
}

func TestContract(t *testing.T) { storetest.Run(t, newHome) }

func TestModel(t *testing.T) { storetest.RunModel(t, newHome) }
