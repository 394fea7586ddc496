package ahp

import (
	"encoding/json"
	"maps"
	"os"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// senderKey and ownerKey are where the protocol's open objects say who a person
// is.
const (
	senderKey = "ahpd.sender"
	ownerKey  = "ahpd.owner"
)

// signIn tells whose token it is.
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
	return "user:" + name, nil
}

// person is who speaks through the connection: a user, or whoever has the
// host's own token; "" where there are no users.
func (c *conn) person() string {
	if c.front.users == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.good(usersResource.Resource); l != nil {
		return l.user
	}
	return c.front.rootPerson
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
