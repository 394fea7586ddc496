//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ticks is the kernel's USER_HZ, which is 100 on every platform of Go's.
const ticks = 100

// selfCPU is the processor time that this process has used.
func selfCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the processor time that a process has used, in steps of 10 ms.
func cpuOf(b testing.TB, pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var sum int64
	for _, f := range fields[11:13] { // utime, stime
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks
}

// residentOf is the resident memory of a process in bytes.
func residentOf(b testing.TB, pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// anonymousOf is the resident memory of a process without the files it maps:
// the database is one, and as large as what it holds.
func anonymousOf(b testing.TB, pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	b.Fatal("no RssAnon")
	return 0
}

// writesOf is how many write calls a process has made, and of how many bytes.
func writesOf(b testing.TB, pid int) (calls, size int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "wchar":
			size = n
		case "syscw":
			calls = n
		}
	}
	return calls, size
}

// at is the q-th part of sorted durations, in milliseconds.
func at(d []time.Duration, q float64) float64 {
	return d[int(q*float64(len(d)-1))].Seconds() * 1000
}

// reportTimes reports p50 and p99 in milliseconds.
func reportTimes(b *testing.B, name string, d []time.Duration) (p50, p99 float64) {
	slices.Sort(d)
	p50, p99 = at(d, 0.5), at(d, 0.99)
	b.ReportMetric(p50, name+"p50-ms")
	b.ReportMetric(p99, name+"p99-ms")
	return p50, p99
}

func median(f []float64) float64 {
	slices.Sort(f)
	return f[len(f)/2]
}
