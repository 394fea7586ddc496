package ahp

import (
	"encoding/json"
	"maps"
	"os"

	"github.com/polyhost/polyhost/core/users"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// senderKey and ownerKey are where the protocol's open objects say who a person
// is.
const (
	senderKey = "ahpd.sender"
	ownerKey  = "ahpd.owner"
)

// signIn tells whose token it is: a user's name.
func (c *conn) signIn(token string) (user string, err error) {
	name, ok, err := c.front.users.Verify(token)
	if err != nil {
		return "", err
	}
	if !ok {
		c.log.Warn("A client signs in with a token that is nobody's", "client", c.who().id)
		return "", &jsonrpc.Error{Code: codeAuthRequired, Message: "that token is no user's of this host",
			Data: map[string]any{"resources": []lendable{usersResource}}}
	}
	c.log.Info("A user signs in", "client", c.who().id, "user", name)
	return name, nil
}

// person is who speaks through the connection: a user, or whoever has the
// host's own token; "" where there are no users.
func (c *conn) person() string {
	if c.front.users == nil {
		return ""
	}
	if name := c.user(); name != "" {
		return "user:" + name
	}
	return c.front.rootPerson
}

// user is the name of who signed in, or "".
func (c *conn) user() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.good(usersResource.Resource); l != nil {
		return l.user
	}
	return ""
}

// may reports whether who speaks through the connection may do what needs a
// grant: a user who has it, as of now, and everybody who did not sign in.
func (c *conn) may(grant users.Grant) bool {
	name := c.user()
	if name == "" {
		return true
	}
	granted, err := c.front.users.Granted(name, grant)
	if err != nil {
		c.log.Error("What was granted to a user cannot be read", "user", name, "err", err)
	}
	return granted
}

// rootPerson names who has the host's own token.
func rootPerson() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	return "root:" + name
}

// signed is a message with who sent it in its _meta, and nobody else: what a
// client says of that itself does not count.
func signed(message json.RawMessage, person string) json.RawMessage {
	var m struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(message, &m) != nil {
		return message
	}
	if _, claimed := m.Meta[senderKey]; !claimed && person == "" {
		return message
	}
	var whole map[string]json.RawMessage
	if json.Unmarshal(message, &whole) != nil {
		return message
	}
	meta := map[string]json.RawMessage{}
	maps.Copy(meta, m.Meta)
	delete(meta, senderKey)
	if person != "" {
		meta[senderKey] = encode(person)
	}
	if delete(whole, "_meta"); len(meta) > 0 {
		whole["_meta"] = encode(meta)
	}
	return encode(whole)
}

// personMeta is an open object that names a person under a key; nil for nobody.
func personMeta(key, person string) map[string]string {
	if person == "" {
		return nil
	}
	return map[string]string{key: person}
}
