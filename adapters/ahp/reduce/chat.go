package reduce

import "slices"

func chat(state, action Object) (Object, bool) {
	switch action["type"] {
	case "chat/turnStarted":
		return startTurn(state, action)
	case "chat/delta":
		return editPart(state, action, "markdown", func(p Object) Object {
			return with(p, "content", text(p["content"])+text(action["content"]))
		})
	case "chat/reasoning":
		return editPart(state, action, "reasoning", func(p Object) Object {
			return with(p, "content", text(p["content"])+text(action["content"]))
		})
	case "chat/responsePart":
		turn, part := running(state, action), object(action["part"])
		if turn == nil || part["kind"] == "error" {
			return state, false
		}
		return putParts(state, turn, append(slices.Clone(list(turn["responseParts"])), part))
	case "chat/usage":
		if turn := running(state, action); turn != nil {
			return place(state, "activeTurn", with(turn, "usage", action["usage"]))
		}
	case "chat/turnComplete":
		return endTurn(state, action, "complete", nil)
	case "chat/turnCancelled":
		return endTurn(state, action, "cancelled", nil)
	case "chat/error":
		return endTurn(state, action, "error", object(action["part"]))
	case "chat/turnResume":
		return resumeTurn(state, action)
	case "chat/truncated":
		return truncate(state, action)
	case "chat/turnsLoaded":
		return loadTurns(state, action)
	case "chat/activityChanged":
		return place(state, "activity", action["activity"])
	case "chat/isReadChanged":
		return flag(state, Read, yes(action["isRead"]))
	case "chat/isArchivedChanged":
		return flag(state, Archived, yes(action["isArchived"]))
	case "chat/workingDirectorySet":
		return addDirectory(state, action)
	case "chat/workingDirectoryRemoved":
		return removeDirectory(state, action)
	case "chat/pendingMessageSet":
		return setPending(state, action)
	case "chat/pendingMessageRemoved":
		return dropPending(state, text(action["kind"]), text(action["id"]))
	case "chat/queuedMessagesReordered":
		return reorderQueue(state, list(action["order"]))
	case "chat/draftChanged":
		return place(state, "draft", action["draft"])
	case "chat/inputRequested":
		return requestInput(state, object(action["request"]))
	case "chat/inputAnswerChanged":
		return changeAnswer(state, action)
	case "chat/inputCompleted":
		return completeInput(state, action)
	case "chat/backgroundWorkSet":
		return place(state, "backgroundWork", upsert(list(state["backgroundWork"]), "id", object(action["work"])))
	case "chat/backgroundWorkRemoved":
		return remove(state, "backgroundWork", "id", text(action["id"]))
	case "chat/movableChanged":
		return place(state, "movable", action["movable"])
	case "chat/changesetsChanged":
		return place(state, "changesets", action["changesets"])
	case "chat/canvasesChanged":
		return place(state, "canvases", action["canvases"])
	}
	return toolCall(state, action)
}

// running is the active turn if the action is about it.
func running(state, action Object) Object {
	turn := object(state["activeTurn"])
	if turn == nil || turn["id"] != action["turnId"] {
		return nil
	}
	return turn
}

// settle recomputes the activity of a chat from its active turn.
func settle(state Object, idle uint32) Object {
	activity := idle
	if turn := object(state["activeTurn"]); turn != nil {
		activity = Running
		if slices.ContainsFunc(list(turn["responseParts"]), waits) {
			activity = InputNeeded
		}
	}
	return with(state, "status", float64(bits(state)&^activityMask|activity))
}

// waits reports whether a part waits for somebody.
func waits(v any) bool {
	part := object(v)
	switch part["kind"] {
	case "inputRequest":
		return part["response"] == nil
	case "toolCall":
		switch object(part["toolCall"])["status"] {
		case "pending-confirmation", "pending-result-confirmation", "auth-required":
			return true
		}
	}
	return false
}

func unread(state Object) Object { return with(state, "status", float64(bits(state)&^Read)) }

func startTurn(state, action Object) (Object, bool) {
	next := with(unread(state), "activeTurn", Object{
		"id":            action["turnId"],
		"startedAt":     action["startedAt"],
		"message":       action["message"],
		"responseParts": []any{},
	})
	next["modifiedAt"] = action["startedAt"]
	if id := text(action["queuedMessageId"]); id != "" {
		next, _ = dropPending(next, "steering", id)
		next, _ = dropPending(next, "queued", id)
	}
	return settle(next, Idle), true
}

// endTurn moves the active turn to the finished ones. Calls that are still
// open are skipped; part, if any, comes last.
func endTurn(state, action Object, how string, part Object) (Object, bool) {
	turn := running(state, action)
	if turn == nil {
		return state, false
	}
	parts := slices.Clone(list(turn["responseParts"]))
	for i, v := range parts {
		if p := object(v); p["kind"] == "toolCall" {
			parts[i] = with(p, "toolCall", skipped(object(p["toolCall"])))
		}
	}
	if part != nil {
		parts = append(parts, part)
	}
	duration := max(0, number(action["duration"]))
	ended := carry(turn, "id", "startedAt", "message", "usage")
	ended["duration"], ended["responseParts"], ended["state"] = duration, parts, how

	next := with(with(state, "activeTurn", nil), "turns", append(slices.Clone(list(state["turns"])), ended))
	next["modifiedAt"] = EndTime(text(turn["startedAt"]), duration)
	if how == "error" {
		return settle(next, Failed), true
	}
	return settle(next, Idle), true
}

// resumeTurn makes the last turn active again, when it ended with an error
// that allows it.
func resumeTurn(state, action Object) (Object, bool) {
	turns := list(state["turns"])
	if object(state["activeTurn"]) != nil || len(turns) == 0 {
		return state, false
	}
	turn := object(turns[len(turns)-1])
	parts := list(turn["responseParts"])
	if turn["id"] != action["turnId"] || turn["state"] != "error" || len(parts) == 0 {
		return state, false
	}
	if last := object(parts[len(parts)-1]); last["kind"] != "error" || !yes(last["resumable"]) {
		return state, false
	}
	next := with(unread(state), "activeTurn", carry(turn, "id", "startedAt", "message", "responseParts", "usage"))
	next["turns"] = slices.Clone(turns[:len(turns)-1])
	return settle(next, Idle), true
}

// truncate keeps the turns up to one, or none.
func truncate(state, action Object) (Object, bool) {
	next := state
	if id := text(action["turnId"]); id == "" {
		next = with(with(next, "turns", []any{}), "turnsNextCursor", nil)
	} else {
		turns := list(state["turns"])
		i := index(turns, "id", id)
		if i < 0 {
			return state, false
		}
		next = with(next, "turns", slices.Clone(turns[:i+1]))
	}
	return settle(with(next, "activeTurn", nil), Idle), true
}

func loadTurns(state, action Object) (Object, bool) {
	have := list(state["turns"])
	turns := make([]any, 0, len(have)+len(list(action["turns"])))
	for _, t := range list(action["turns"]) {
		if index(have, "id", text(object(t)["id"])) < 0 {
			turns = append(turns, t)
		}
	}
	return place(with(state, "turns", append(turns, have...)), "turnsNextCursor", action["turnsNextCursor"])
}

// editPart changes the part with the action's partId, if it is of that kind.
func editPart(state, action Object, kind string, edit func(Object) Object) (Object, bool) {
	turn := running(state, action)
	if turn == nil {
		return state, false
	}
	parts := list(turn["responseParts"])
	i := index(parts, "id", text(action["partId"]))
	if i < 0 || object(parts[i])["kind"] != kind {
		return state, false
	}
	return putParts(state, turn, replaced(parts, i, edit(object(parts[i]))))
}

func setPending(state, action Object) (Object, bool) {
	m := Object{"id": action["id"], "message": action["message"]}
	if action["kind"] == "steering" {
		return place(state, "steeringMessage", m)
	}
	return place(state, "queuedMessages", upsert(list(state["queuedMessages"]), "id", m))
}

func dropPending(state Object, kind, id string) (Object, bool) {
	if kind == "steering" {
		if m := object(state["steeringMessage"]); m == nil || m["id"] != id {
			return state, false
		}
		return place(state, "steeringMessage", nil)
	}
	next, changed := remove(state, "queuedMessages", "id", id)
	if changed && len(list(next["queuedMessages"])) == 0 {
		next = with(next, "queuedMessages", nil)
	}
	return next, changed
}

func reorderQueue(state Object, order []any) (Object, bool) {
	queue := list(state["queuedMessages"])
	if len(queue) == 0 {
		return state, false
	}
	rest := slices.Clone(queue)
	out := make([]any, 0, len(queue))
	for _, id := range order {
		if i := index(rest, "id", text(id)); i >= 0 {
			out = append(out, rest[i])
			rest = removed(rest, i)
		}
	}
	return place(state, "queuedMessages", append(out, rest...))
}

// openRequest finds the unanswered input request of that id.
func openRequest(turn Object, id string) (parts []any, at int) {
	parts = list(turn["responseParts"])
	return parts, slices.IndexFunc(parts, func(v any) bool {
		p := object(v)
		return p["kind"] == "inputRequest" && p["response"] == nil && object(p["request"])["id"] == id
	})
}

// putParts replaces the parts of the active turn, where that cannot move the
// chat's activity.
func putParts(state, turn Object, parts []any) (Object, bool) {
	return place(state, "activeTurn", with(turn, "responseParts", parts))
}

func setParts(state, turn Object, parts []any) (Object, bool) {
	next, changed := putParts(state, turn, parts)
	return settle(next, Idle), changed
}

func requestInput(state, request Object) (Object, bool) {
	turn := object(state["activeTurn"])
	if turn == nil {
		return state, false
	}
	parts, i := openRequest(turn, text(request["id"]))
	part := Object{"kind": "inputRequest", "request": request}
	if i < 0 {
		return setParts(unread(state), turn, append(slices.Clone(parts), part))
	}
	if answers := object(object(parts[i])["request"])["answers"]; answers != nil && request["answers"] == nil {
		part["request"] = with(request, "answers", answers)
	}
	return setParts(unread(state), turn, replaced(parts, i, part))
}

func changeAnswer(state, action Object) (Object, bool) {
	turn := object(state["activeTurn"])
	parts, i := openRequest(turn, text(action["requestId"]))
	if turn == nil || i < 0 {
		return state, false
	}
	request := object(object(parts[i])["request"])
	answers := with(object(request["answers"]), text(action["questionId"]), action["answer"])
	if len(answers) == 0 {
		request = with(request, "answers", nil)
	} else {
		request = with(request, "answers", answers)
	}
	return putParts(state, turn, replaced(parts, i, with(object(parts[i]), "request", request)))
}

func completeInput(state, action Object) (Object, bool) {
	turn := object(state["activeTurn"])
	parts, i := openRequest(turn, text(action["requestId"]))
	if turn == nil || i < 0 {
		return state, false
	}
	part := object(parts[i])
	if answers := object(action["answers"]); len(answers) > 0 {
		request := object(part["request"])
		part = with(part, "request", with(request, "answers", merged(object(request["answers"]), answers)))
	}
	return setParts(state, turn, replaced(parts, i, with(part, "response", action["response"])))
}
