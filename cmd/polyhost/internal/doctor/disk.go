package doctor

import (
	"errors"
	"os"
	"slices"
	"time"
)

// disk measures what a durable write costs: every prompt and answer waits for
// one.
func (x *examination) disk() {
	took, err := probe(x.Home)
	if err != nil {
		x.note("disk", Wrong, "", "%v", err)
		return
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	s := Good
	if median > slowSync {
		s = Wary
	}
	x.note("disk", s, "", "a synced write takes %v (median), %v (worst of %d)",
		median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond), len(took))
}

func probe(dir string) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, probePage)
	for range probes {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
