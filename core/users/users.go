// Package users is the directory of the people who may say who they are to a
// gateway. Each has a token, which is told once, and what the operator granted;
// the directory keeps the token's hash.
//
// It is a file of the home, read anew for each question, so that what the
// operator changes counts from then on; one operator changes it at a time. It
// knows no front.
package users

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// File is the directory in a home.
const File = "users.json"

// Errors that callers tell apart.
var (
	ErrExists  = errors.New("there is a user of that name")
	ErrUnknown = errors.New("there is no user of that name")
	ErrName    = fmt.Errorf("a name has 1 to %d small letters, digits, dots, hyphens and underscores", maxName)
	ErrFull    = fmt.Errorf("there are %d users already", maxUsers)
	ErrGrant   = fmt.Errorf("a grant is one of %q", Grants)
)

// Grant is what a user may do that not every user may.
type Grant string

// The grants.
const (
	// ConfigWrite is to change what the gateway keeps for all of its clients.
	ConfigWrite Grant = "config:write"
	// TrustPush is to say which folders are trusted.
	TrustPush Grant = "trust:push"
)

// Grants are all there are.
var Grants = []Grant{ConfigWrite, TrustPush}

// Directory is the directory of one home.
type Directory struct{ path string }

// In is the directory of a home, whether there is one or not.
func In(home string) *Directory { return &Directory{filepath.Join(home, File)} }

// Exists reports whether the directory was ever written to.
func (d *Directory) Exists() bool {
	_, err := os.Stat(d.path)
	return err == nil
}

// User is one of the people, as the operator sees it.
type User struct {
	Name   string
	Grants []Grant // sorted
}

type user struct {
	Name string `json:"name"`
	// Grants are sorted. Those that this version does not know let nobody do
	// anything.
	Grants []Grant `json:"grants,omitempty"`
	// Hash is of the token, in hexadecimal. A token is as random as a key, so
	// that a plain hash keeps it.
	Hash string `json:"hash"`
}

type file struct {
	Users []user `json:"users"`
}

func (d *Directory) read() (file, error) {
	var all file
	f, err := os.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("users: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return all, fmt.Errorf("users: %w", err)
	}
	if len(b) > maxFile {
		return all, fmt.Errorf("users: %s is larger than %d bytes", d.path, maxFile)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		return all, fmt.Errorf("users: read %s: %w", d.path, err)
	}
	return all, nil
}

func (d *Directory) write(all file) error {
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("users: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(d.path), File+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("users: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), d.path)
	}
	if err != nil {
		return fmt.Errorf("users: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

var nameShape = regexp.MustCompile(fmt.Sprintf(`^[a-z0-9._-]{1,%d}$`, maxName))

// Add makes a user with grants and returns the token, which nobody can learn
// again.
func (d *Directory) Add(name string, grants ...Grant) (token string, err error) {
	if !nameShape.MatchString(name) {
		return "", ErrName
	}
	if grants, err = sorted(grants); err != nil {
		return "", err
	}
	all, err := d.read()
	if err != nil {
		return "", err
	}
	if all.find(name) >= 0 {
		return "", ErrExists
	}
	if len(all.Users) >= maxUsers {
		return "", ErrFull
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	token = base64.RawURLEncoding.EncodeToString(secret)
	all.Users = append(all.Users, user{name, grants, hash(token)})
	slices.SortFunc(all.Users, func(a, b user) int { return strings.Compare(a.Name, b.Name) })
	return token, d.write(all)
}

// Remove takes a user out. The directory stays, also without users.
func (d *Directory) Remove(name string) error {
	return d.change(name, func(all *file, i int) { all.Users = slices.Delete(all.Users, i, i+1) })
}

// Grant gives a user these grants in place of those there were.
func (d *Directory) Grant(name string, grants ...Grant) error {
	grants, err := sorted(grants)
	if err != nil {
		return err
	}
	return d.change(name, func(all *file, i int) { all.Users[i].Grants = grants })
}

// change writes the directory anew after a change to a user.
func (d *Directory) change(name string, do func(all *file, user int)) error {
	all, err := d.read()
	if err != nil {
		return err
	}
	i := all.find(name)
	if i < 0 {
		return ErrUnknown
	}
	do(&all, i)
	return d.write(all)
}

// Granted reports whether a user has a grant; who is no user has none.
func (d *Directory) Granted(name string, grant Grant) (bool, error) {
	all, err := d.read()
	if err != nil {
		return false, err
	}
	i := all.find(name)
	return i >= 0 && slices.Contains(all.Users[i].Grants, grant), nil
}

// Users are all of them, sorted by name.
func (d *Directory) Users() ([]User, error) {
	all, err := d.read()
	list := make([]User, len(all.Users))
	for i, u := range all.Users {
		list[i] = User{u.Name, u.Grants}
	}
	return list, err
}

// find is where a user is, or -1.
func (f *file) find(name string) int {
	return slices.IndexFunc(f.Users, func(u user) bool { return u.Name == name })
}

// sorted are grants once each, in order, if there are such.
func sorted(grants []Grant) ([]Grant, error) {
	for _, g := range grants {
		if !slices.Contains(Grants, g) {
			return nil, fmt.Errorf("%w, not %q", ErrGrant, g)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(grants))), nil
}

// Verify tells whose token it is. It takes as long for one token as for another.
func (d *Directory) Verify(token string) (name string, ok bool, err error) {
	all, err := d.read()
	if err != nil {
		return "", false, err
	}
	given := []byte(hash(token))
	for _, u := range all.Users {
		if subtle.ConstantTimeCompare(given, []byte(u.Hash)) == 1 {
			name, ok = u.Name, true
		}
	}
	return name, ok, nil
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
