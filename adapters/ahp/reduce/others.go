package reduce

import "slices"

func terminal(state, action Object) (Object, bool) {
	content := list(state["content"])
	switch action["type"] {
	case "terminal/data":
		return place(state, "content", appendOutput(content, text(action["data"])))
	case "terminal/resized":
		return place(with(state, "cols", action["cols"]), "rows", action["rows"])
	case "terminal/claimed":
		return place(state, "claim", action["claim"])
	case "terminal/titleChanged":
		return place(state, "title", action["title"])
	case "terminal/cwdChanged":
		return place(state, "cwd", action["cwd"])
	case "terminal/exited":
		lifecycle := carry(action, "exitCode")
		lifecycle["status"] = "exited"
		return place(state, "lifecycle", lifecycle)
	case "terminal/cleared":
		return place(state, "content", []any{})
	case "terminal/commandDetectionAvailable":
		return place(state, "supportsCommandDetection", true)
	case "terminal/commandExecuted":
		part := carry(action, "commandId", "commandLine", "timestamp")
		part["type"], part["output"], part["isComplete"] = "command", "", false
		return place(with(state, "supportsCommandDetection", true), "content", append(slices.Clone(content), part))
	case "terminal/commandFinished":
		next := slices.Clone(content)
		for i, v := range next {
			if p := object(v); p["type"] == "command" && p["commandId"] == action["commandId"] {
				p = with(with(p, "exitCode", action["exitCode"]), "durationMs", action["durationMs"])
				next[i] = with(p, "isComplete", true)
			}
		}
		return place(state, "content", next)
	}
	return state, false
}

// appendOutput grows the last part: the command that runs, or plain output.
func appendOutput(content []any, data string) []any {
	if n := len(content); n > 0 {
		last := object(content[n-1])
		switch {
		case last["type"] == "command" && !yes(last["isComplete"]):
			return replaced(content, n-1, with(last, "output", text(last["output"])+data))
		case last["type"] == "unclassified":
			return replaced(content, n-1, with(last, "value", text(last["value"])+data))
		}
	}
	return append(slices.Clone(content), Object{"type": "unclassified", "value": data})
}

func changeset(state, action Object) (Object, bool) {
	files := list(state["files"])
	switch action["type"] {
	case "changeset/statusChanged":
		return place(with(state, "status", action["status"]), "error", errorOf(action))
	case "changeset/fileSet":
		return place(state, "files", upsert(files, "id", object(action["file"])))
	case "changeset/fileRemoved":
		return remove(state, "files", "id", text(action["fileId"]))
	case "changeset/filesReviewChanged":
		return reviewFiles(state, action)
	case "changeset/contentChanged":
		next := with(state, "files", action["files"])
		if v := action["operations"]; v != nil {
			next["operations"] = v
		}
		return next, true
	case "changeset/operationsChanged":
		return place(state, "operations", action["operations"])
	case "changeset/operationStatusChanged":
		ops := list(state["operations"])
		i := index(ops, "id", text(action["operationId"]))
		if i < 0 {
			return state, false
		}
		op := with(with(object(ops[i]), "status", action["status"]), "error", errorOf(action))
		return place(state, "operations", replaced(ops, i, op))
	case "changeset/cleared":
		if len(files) > 0 {
			return place(state, "files", []any{})
		}
	}
	return state, false
}

// errorOf is the action's error, if its status says there is one.
func errorOf(action Object) any {
	if action["status"] == "error" {
		return action["error"]
	}
	return nil
}

func reviewFiles(state, action Object) (Object, bool) {
	files, ids, changed := slices.Clone(list(state["files"])), list(action["files"]), false
	for i, v := range files {
		f := object(v)
		if slices.Contains(ids, f["id"]) && f["reviewed"] != action["reviewed"] {
			files[i], changed = with(f, "reviewed", action["reviewed"]), true
		}
	}
	if !changed {
		return state, false
	}
	return place(state, "files", files)
}

func annotations(state, action Object) (Object, bool) {
	all := list(state["annotations"])
	if action["type"] == "annotations/set" {
		return place(state, "annotations", upsert(all, "id", object(action["annotation"])))
	}
	i := index(all, "id", text(action["annotationId"]))
	if i < 0 {
		return state, false
	}
	note := object(all[i])
	switch action["type"] {
	case "annotations/updated":
		note = merged(note, carry(action, "origin", "resource", "range", "resolved"))
	case "annotations/removed":
		return place(state, "annotations", removed(all, i))
	case "annotations/entrySet":
		note = with(note, "entries", upsert(list(note["entries"]), "id", object(action["entry"])))
	case "annotations/entryRemoved":
		n, changed := remove(note, "entries", "id", text(action["entryId"]))
		if !changed {
			return state, false
		}
		note = n
	default:
		return state, false
	}
	return place(state, "annotations", replaced(all, i, note))
}

func automation(state, action Object) (Object, bool) {
	switch action["type"] {
	case "automation/set":
		return place(state, "entries", upsert(list(state["entries"]), "resource", object(action["automation"])))
	case "automation/removed":
		return remove(state, "entries", "resource", text(action["resource"]))
	}
	return state, false
}

func automationRun(state, action Object) (Object, bool) {
	sessions := list(state["sessions"])
	switch action["type"] {
	case "automationRun/lifecycleChanged":
		return place(state, "lifecycle", action["lifecycle"])
	case "automationRun/sessionSet":
		if slices.Contains(sessions, action["session"]) {
			return state, false
		}
		return place(state, "sessions", append(slices.Clone(sessions), action["session"]))
	case "automationRun/sessionRemoved":
		i := slices.Index(sessions, action["session"])
		if i < 0 {
			return state, false
		}
		next := with(state, "sessions", removed(sessions, i))
		if next["primarySession"] == action["session"] {
			delete(next, "primarySession")
		}
		return next, true
	case "automationRun/primarySessionChanged":
		return place(state, "primarySession", action["primarySession"])
	}
	return state, false
}

func canvas(state, action Object) (Object, bool) {
	if action["type"] == "canvas/stateChanged" {
		return object(action["canvas"]), true
	}
	return state, false
}
