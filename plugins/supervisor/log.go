package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// logFile keeps the latest of what a plugin writes: a file of bounded size and
// the one before it. Writing never fails, so that a full disk does not stop a
// plugin.
type logFile struct {
	path string

	mu   sync.Mutex
	f    *os.File // nil after Close or when the disk refuses
	size int64
}

func openLog(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of a plugin's log: %w", err)
	}
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open a plugin's log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open a plugin's log: %w", err)
	}
	l.f, l.size = f, info.Size()
	return nil
}

func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return len(b), nil
	}
	if l.size > 0 && l.size+int64(len(b)) > maxLog {
		l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
		if l.open() != nil {
			return len(b), nil
		}
	}
	n, _ := l.f.Write(b[:min(len(b), maxLog)])
	l.size += int64(n)
	return len(b), nil
}

func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
}
