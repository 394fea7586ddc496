package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/lines"
)

// errNoPlace: the transcript has no such record, or not yet.
var errNoPlace = errors.New("it has no such place")

// copyUpTo gives a conversation a copy of another one's transcript that ends
// with a record, and returns its id. The CLI's own --resume-session-at finds no
// record from before the conversation was last shortened; the transcript still
// has them all.
func (b *Backend) copyUpTo(ctx context.Context, id, place string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, placeBound)
	defer cancel()
	for {
		made, err := b.tryCopy(id, place)
		if !errors.Is(err, errNoPlace) {
			return made, err
		}
		select { // the CLI may be writing it
		case <-time.After(placeEvery):
		case <-ctx.Done():
			return "", fmt.Errorf("fork %s: %w", clip(id), err)
		}
	}
}

func (b *Backend) tryCopy(id, place string) (made string, err error) {
	from, err := b.find(id)
	if err != nil {
		return "", err
	}
	defer from.Close()
	dir, err := os.OpenRoot(filepath.Dir(from.Name()))
	if err != nil {
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	defer dir.Close()
	made = uuid()
	// Under its own name it is a conversation for whoever looks.
	part := made + ".part"
	to, err := dir.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	err = errors.Join(copyRecords(to, from, id, made, place), to.Close())
	if err == nil {
		err = dir.Rename(part, made+".jsonl")
	}
	if err != nil {
		_ = dir.Remove(part)
		return "", fmt.Errorf("fork %s: %w", id, err)
	}
	return made, nil
}

// copyRecords copies records up to the one that is the place, under the new
// conversation's id.
func copyRecords(to io.Writer, from io.Reader, id, made, place string) error {
	mark := []byte(`"uuid":` + string(marshal(place)))
	was, is := []byte(`"sessionId":"`+id+`"`), []byte(`"sessionId":"`+made+`"`)
	in := lines.NewReader(from, maxCopied)
	for {
		line, err := in.Next()
		if err == io.EOF {
			return errNoPlace
		}
		if err != nil {
			return err
		}
		last := false
		if bytes.Contains(line, mark) {
			var r struct {
				UUID string `json:"uuid"`
			}
			last = json.Unmarshal(line, &r) == nil && r.UUID == place
		}
		// A text has its quotation marks escaped: this is never part of one.
		if _, err := to.Write(append(bytes.ReplaceAll(line, was, is), '\n')); err != nil || last {
			return err
		}
	}
}

// forkAt makes the conversation the copy of the one that it is to begin with.
func (c *conversation) forkAt(ctx context.Context) error {
	id, err := c.backend.copyUpTo(ctx, c.open.Resume, c.open.ForkAt)
	if err != nil {
		return err
	}
	c.m.session = id
	return c.out.Put(ctx, agent.Frame{Kind: agent.ConversationID, Text: id})
}
