package cognitio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/guard"
)

// Name is the front's name, and that of actors who come through it.
const Name = "cognitio"

// passwordFile is where the password is kept in the gateway's directory.
const passwordFile = "cognitio.password"

// server is the front: its sessions, streams and door.
type server struct {
	deps     front.Deps
	host     *host.Host
	lives    *host.LiveWatch
	log      *slog.Logger
	password string
	// bodyWithin is how long a request's body may take.
	bodyWithin time.Duration
	streams    *streams
	ids        *eventIDs
	projects   *projects

	// announcing guards announced: the sessions that streams know of.
	announcing sync.Mutex
	announced  map[id.ID]bool

	// tasks answer permissions for sessions' rules; they end with ctx.
	tasks  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	projected chan struct{} // closed when no session is projected any more
}

// New makes the front. Its password is made on the first start and kept.
func New(d front.Deps) (front.Front, error) {
	password, err := guard.LoadOrCreateToken(filepath.Join(d.Home, passwordFile))
	if err != nil {
		return nil, fmt.Errorf("cognitio password: %w", err)
	}
	f := &server{deps: d, host: d.Host, log: d.Log, password: password, bodyWithin: requestTimeout, streams: newStreams(),
		ids: newEventIDs(), projects: newProjects(), announced: map[id.ID]bool{}, projected: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, sum := range f.host.List(everySession) {
		f.announced[sum.Info.ID] = true
	}
	f.streams.frames = d.Frames
	f.lives = d.Host.WatchLive()
	return f, nil
}

// Name implements front.Front.
func (f *server) Name() string { return Name }

// Listeners implements front.Front.
func (f *server) Listeners() []front.Listener { return []front.Listener{{Handler: f.router()}} }

// Endpoint is this front's entry of endpoints.json.
type Endpoint struct {
	URL      string `json:"url"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Bound implements front.Front.
func (f *server) Bound(addrs map[string]string) (any, error) {
	return Endpoint{URL: "http://" + addrs[""], Username: userName, Password: f.password}, nil
}

// Run implements front.Front.
func (f *server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { f.watch(ctx) })
	err := front.Project(ctx, f.lives, func(s *host.Session, st *state.State) front.Projection {
		if sum, ok := f.host.Summary(s.ID()); ok && !sum.Private {
			f.created(chatOf(st, st.DefaultChat()), f.originOf(&st.Info))
		}
		return f.project(s, st)
	})
	close(f.projected)
	cancel()
	wg.Wait()
	f.cancel()
	f.tasks.Wait()
	return err
}

// watch tells of sessions that come and go, whoever makes and removes them.
func (f *server) watch(ctx context.Context) {
	w := f.host.Watch()
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			if !errors.Is(err, host.ErrClosed) && ctx.Err() == nil {
				f.log.Error("list of sessions cannot be watched", "err", err)
			}
			return
		}
		for i := range changes {
			c := &changes[i]
			switch c.Kind {
			case host.Added:
				for _, at := range chatsOf(&c.Summary) {
					if at.isMain() {
						f.created(at, f.originOf(at.info))
					}
				}
			case host.Removed:
				f.deleted(&c.Summary)
			}
		}
	}
}

// Drain implements front.Front: streams end after what is queued, and their
// clients come back when the gateway does.
func (f *server) Drain(ctx context.Context) {
	front.Settle(ctx, f.projected)
	f.streams.close()
}
