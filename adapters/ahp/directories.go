package ahp

import (
	"context"
	"slices"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// addDirectory adds a working directory to the session.
func (a *action) addDirectory(ctx context.Context) error {
	dir, err := a.directory()
	if err != nil {
		return err
	}
	return a.changeDir(ctx, host.ChangeDir{Add: dir})
}

// removeDirectory takes one out; the first, where the agent runs, stays.
func (a *action) removeDirectory(ctx context.Context) error {
	dir, err := a.directory()
	if err != nil {
		return err
	}
	return a.changeDir(ctx, host.ChangeDir{Remove: dir})
}

// replaceDirectory puts one in the place of another, which may be the first.
func (a *action) replaceDirectory(ctx context.Context) error {
	var p struct {
		Directory   string `json:"directory" jsonx:"required"`
		Replacement string `json:"replacement" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	old, err := filePath(p.Directory)
	if err != nil {
		return err
	}
	dir, err := filePath(p.Replacement)
	if err != nil {
		return err
	}
	return a.changeDir(ctx, host.ChangeDir{Remove: old, Add: dir})
}

func (a *action) changeDir(ctx context.Context, c host.ChangeDir) error {
	c.By = a.conn.actor()
	return a.change(ctx, "dirs:"+a.who(), func() error {
		changed, err := a.live.session().ChangeDir(ctx, c)
		if err == nil && !changed {
			return errUnchanged
		}
		return err
	})
}

type directoryAction struct {
	Type        string `json:"type"`
	Directory   string `json:"directory"`
	Replacement string `json:"replacement,omitempty"`
}

// dirsChanged says what became of the working directories, the first action
// with the origin.
func (l *live) dirsChanged(o *origin) {
	for _, a := range directoryActions(l.dirs, l.st.Info.Dirs) {
		l.say(id.Nil, o, func(*renderer) any { return a })
		o = nil
	}
	l.followDir()
	l.lookForRepository()
}

// directoryActions lead from one list of working directories to another.
func directoryActions(was, now []string) []directoryAction {
	var out []directoryAction
	was = slices.Clone(was)
	for i := 0; i < min(len(was), len(now)); i++ { // a replacement may shorten was
		if was[i] != now[i] && (i == 0 || !slices.Contains(now, was[i]) && !slices.Contains(was, now[i])) {
			out = append(out, directoryAction{"session/workingDirectoryReplaced", fileURI(was[i]), fileURI(now[i])})
			rest := slices.DeleteFunc(slices.Clone(was[i+1:]), func(d string) bool { return d == now[i] })
			was = append(append(was[:i:i], now[i]), rest...)
		}
	}
	for i := 0; i < len(was); { // what stands in the wrong place goes, and comes back at the end
		if i < len(now) && was[i] == now[i] {
			i++
			continue
		}
		out = append(out, directoryAction{Type: "session/workingDirectoryRemoved", Directory: fileURI(was[i])})
		was = slices.Delete(was, i, i+1)
	}
	for _, d := range now[len(was):] {
		out = append(out, directoryAction{Type: "session/workingDirectorySet", Directory: fileURI(d)})
	}
	return out
}

// addChatDirectory adds one of the session's working directories to a chat's.
func (a *action) addChatDirectory(ctx context.Context) error {
	dir, err := a.directory()
	if err != nil {
		return err
	}
	return a.changeChatDir(ctx, host.ChangeDir{Add: dir})
}

// removeChatDirectory takes one out; the first, where the agent runs, stays.
func (a *action) removeChatDirectory(ctx context.Context) error {
	dir, err := a.directory()
	if err != nil {
		return err
	}
	return a.changeChatDir(ctx, host.ChangeDir{Remove: dir})
}

// directory is the one that the action names.
func (a *action) directory() (string, error) {
	var p struct {
		Directory string `json:"directory" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return "", err
	}
	return filePath(p.Directory)
}

func (a *action) changeChatDir(ctx context.Context, c host.ChangeDir) error {
	c.By = a.conn.actor()
	return a.expect(chatDirKey(a.place.chat, a.who(), c.Add+c.Remove), func() error {
		changed, err := a.live.session().ChangeChatDir(ctx, a.place.chat, c)
		if err == nil && !changed {
			return errUnchanged
		}
		return err
	})
}

// chatDirsChanged says what became of a chat's own working directories. A chat
// that had none of its own shows the whole list first; the action of the client
// that changed them follows, whose directory is in that list already, or not.
func (l *live) chatDirsChanged(chat id.ID, was, now []string, client string) {
	var o *origin
	var of string
	for _, d := range slices.Concat(was, now, l.st.Info.Dirs) {
		if o = l.take(chatDirKey(chat, client, d)); o != nil {
			of = d
			break
		}
	}
	if len(was) > 0 || o == nil {
		l.sayChatDirs(chat, dirURIs(was), dirURIs(now), o)
		return
	}
	l.sayChatDirs(chat, nil, dirURIs(now), nil)
	echo := directoryAction{Type: "chat/workingDirectoryRemoved", Directory: fileURI(of)}
	if slices.Contains(now, of) {
		echo.Type = "chat/workingDirectorySet"
	}
	l.say(chat, o, func(*renderer) any { return echo })
}

func chatDirKey(chat id.ID, client, dir string) string {
	return "chatdirs:" + chat.String() + client + ":" + dir
}
