package reduce

import "slices"

func session(state, action Object) (Object, bool) {
	switch action["type"] {
	case "session/ready":
		return place(state, "lifecycle", "ready")
	case "session/creationFailed":
		return place(with(state, "lifecycle", "failed"), "creationError", action["error"])
	case "session/chatAdded":
		return place(state, "chats", upsert(list(state["chats"]), "resource", object(action["summary"])))
	case "session/chatRemoved":
		next, changed := remove(state, "chats", "resource", text(action["chat"]))
		if changed && next["defaultChat"] == action["chat"] {
			next = with(next, "defaultChat", nil)
		}
		return next, changed
	case "session/chatUpdated":
		chats := list(state["chats"])
		i := index(chats, "resource", text(action["chat"]))
		if i < 0 {
			return state, false
		}
		return place(state, "chats", replaced(chats, i, merged(object(chats[i]), object(action["changes"]), "resource")))
	case "session/chatsReordered":
		return reorderChats(state, list(action["chats"]))
	case "session/defaultChatChanged":
		return place(state, "defaultChat", action["defaultChat"])
	case "session/titleChanged":
		return place(state, "title", action["title"])
	case "session/serverToolsChanged":
		return place(state, "serverTools", action["tools"])
	case "session/activeClientSet":
		return place(state, "activeClients", upsert(list(state["activeClients"]), "clientId", object(action["activeClient"])))
	case "session/activeClientRemoved":
		return remove(state, "activeClients", "clientId", text(action["clientId"]))
	case "session/workingDirectorySet":
		return addDirectory(state, action)
	case "session/workingDirectoryRemoved":
		return removeDirectory(state, action)
	case "session/workingDirectoryReplaced":
		return replaceDirectory(state, action)
	case "session/inputNeededSet":
		return needInput(state, upsert(list(state["inputNeeded"]), "id", object(action["request"])))
	case "session/inputNeededRemoved":
		l := list(state["inputNeeded"])
		i := index(l, "id", text(action["id"]))
		if i < 0 {
			return state, false
		}
		return needInput(state, removed(l, i))
	case "session/isReadChanged":
		return flag(state, Read, yes(action["isRead"]))
	case "session/isArchivedChanged":
		return flag(state, Archived, yes(action["isArchived"]))
	case "session/activityChanged":
		return place(state, "activity", action["activity"])
	case "session/changesetsChanged":
		return place(state, "changesets", action["changesets"])
	case "session/configChanged":
		return config(state, action)
	case "session/metaChanged":
		return place(state, "_meta", action["_meta"])
	}
	return customize(state, action)
}

// needInput sets the open requests and the status that follows from them: a
// tool that a client runs is work, everything else waits for a person.
func needInput(state Object, open []any) (Object, bool) {
	status := bits(state) &^ inputBit
	if slices.ContainsFunc(open, func(v any) bool { return object(v)["kind"] != "toolClientExecution" }) {
		status = bits(state)&^activityMask | InputNeeded
	}
	next := with(state, "status", float64(status))
	if len(open) == 0 {
		return place(next, "inputNeeded", nil)
	}
	return place(next, "inputNeeded", open)
}

// reorderChats applies an order that names every chat exactly once.
func reorderChats(state Object, order []any) (Object, bool) {
	chats := list(state["chats"])
	if len(order) != len(chats) {
		return state, false
	}
	out := make([]any, 0, len(chats))
	for i, uri := range order {
		at := index(chats, "resource", text(uri))
		if at < 0 || slices.Contains(order[:i], uri) {
			return state, false
		}
		out = append(out, chats[at])
	}
	return place(state, "chats", out)
}

// replaceDirectory puts a directory in the place of another one. When the new
// one is listed earlier the old one just goes; later copies go too.
func replaceDirectory(state, action Object) (Object, bool) {
	dirs := list(state["workingDirectories"])
	at, to := slices.Index(dirs, action["directory"]), action["replacement"]
	if at < 0 {
		return state, false
	}
	out := make([]any, 0, len(dirs))
	for i, d := range dirs {
		if i == at {
			d = to
		} else if d != to || i < at {
			out = append(out, d)
			continue
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return place(state, "workingDirectories", out)
}
