package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// tenThousand makes a folder of ten thousand files, which are few inodes: links
// are made faster.
func tenThousand(t testing.TB) (dir string, dirs int) {
	t.Helper()
	dir, dirs = folder(t), 100
	for d := range dirs {
		sub := fmt.Sprintf("%s/d%d", dir, d)
		check(t, os.Mkdir(sub, 0o777))
		write(t, sub+"/f0", "")
		for f := 1; f < 100; f++ {
			check(t, os.Link(sub+"/f0", fmt.Sprintf("%s/f%d", sub, f)))
		}
	}
	return dir, dirs
}

// BenchmarkWatch10000 is from a write to one of ten thousand watched files to
// its telling, most of which is the moment that changes are gathered for.
// Reported are also the processor's time a second while all rest, and the time
// that it takes to begin the watch.
func BenchmarkWatch10000(b *testing.B) {
	dir, _ := tenThousand(b)
	w := newWatcher(b)
	begun := time.Now()
	_, l := w.follow(b, Options{Root: dir, Recursive: true})
	began := time.Since(begun)

	runtime.GC()
	const rest = time.Second
	before := processorTime(b)
	time.Sleep(rest)
	resting := processorTime(b) - before

	for n := 0; b.Loop(); n++ {
		name := fmt.Sprintf("d%d/f%d", n%100, n/100%100)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			b.Fatal(err)
		}
		l.until(b, "updated "+name)
		l.forget()
	}
	b.ReportMetric(float64(resting.Microseconds())/rest.Seconds(), "µs-resting/s")
	b.ReportMetric(float64(began.Microseconds())/1000, "ms-to-begin")
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
