package guard

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NewToken makes a token of 256 random bits, in characters that need no
// escaping in headers, URLs and subprotocol names.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// LoadOrCreateToken reads the token in the file at path, or makes one and
// stores it, readable by the owner alone. Processes that race to make one all
// get the same. A file that others can read is closed to them.
func LoadOrCreateToken(path string) (string, error) {
	token, err := loadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("guard: create token: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(NewToken() + "\n")
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return "", fmt.Errorf("guard: create token: %w", err)
	}
	// A link, unlike a rename, does not replace what another process put there.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("guard: create token: %w", err)
	}
	return loadToken(path)
}

func loadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("guard: read token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("guard: read token: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("guard: token %s is not a file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return "", fmt.Errorf("guard: token is readable by others: %w", err)
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("guard: read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("guard: token file %s is empty: remove it to get a new token", path)
	}
	return token, nil
}
