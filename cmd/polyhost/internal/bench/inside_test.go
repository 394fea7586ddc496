//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/adapters/ahp"
	baefront "github.com/polyhost/polyhost/adapters/bae"
	"github.com/polyhost/polyhost/adapters/cognitio"
	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/adapters/snowpea"
	"github.com/polyhost/polyhost/adapters/zidane"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/boltstore"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// inside is a gateway in this process, its agent too, for figures that only
// the runtime knows. It has one front, and cognitio to be driven by. It ends
// with the test.
func inside(t testing.TB, name string) *gateway {
	t.Helper()
	dir := t.TempDir()
	store, err := boltstore.Open(filepath.Join(dir, "home")) // what is on disk is not on the heap
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	backend := demo.New()
	h, err := host.Open(context.Background(), host.Options{Store: store, DefaultDir: dir, Log: log,
		Backends: []host.NamedBackend{{Name: "demo", Backend: backend}}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := automation.Open(context.Background(), h, h.KV("automation"), log)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{b: t, agent: "demo", pid: os.Getpid(), at: wiretest.Endpoints{}}
	ctx, cancel := context.WithCancel(context.Background())
	var (
		fronts  []front.Front
		servers []*listen.Server
		running sync.WaitGroup
	)
	for which, open := range map[string]func(front.Deps) (front.Front, error){
		"snowpea": snowpea.New, "ahp": ahp.New, "zidane": zidane.New, "cognitio": cognitio.New, "bae": baefront.New} {
		if which != name && which != "cognitio" {
			continue
		}
		var frames *fanout.Counts
		if which == name {
			frames = &g.frames
		}
		f, err := open(front.Deps{Frames: frames, Host: h, Automations: set, Log: log, Home: filepath.Join(dir, "home"), Version: "test", Instance: "test", Shutdown: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		addrs := map[string]string{}
		for _, l := range f.Listeners() {
			socket, err := listen.Open(ctx, listen.Options{})
			if err != nil {
				t.Fatal(err)
			}
			addrs[l.Name] = socket.Addr().String()
			servers = append(servers, listen.Serve(socket, l.Handler, log))
		}
		at, err := f.Bound(addrs)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(at)
		fields := map[string]string{}
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		g.at[f.Name()] = fields
		fronts = append(fronts, f)
		running.Go(func() {
			if err := f.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), patience)
		defer done()
		for _, f := range fronts {
			f.Drain(stop)
		}
		for _, s := range servers {
			if err := s.Shutdown(stop); err != nil {
				t.Error(err)
			}
		}
		if err := h.Close(stop); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// heapInUse is what is reachable in this process, in bytes.
func heapInUse() int64 {
	// Twice: what only a pool holds goes with the second collection.
	runtime.GC()
	debug.FreeOSMemory()
	return sample("/memory/classes/heap/objects:bytes")
}

// allocations is how many objects this process has made.
func allocations() int64 { return sample("/gc/heap/allocs:objects") }

func sample(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
