package reduce

import "slices"

// The keys a tool call keeps through all of its states.
var callBase = []string{"toolCallId", "toolName", "displayName", "intention", "contributor", "_meta"}

// keep copies the lasting keys of a call and more.
func keep(call Object, more ...string) Object {
	return carry(call, append(slices.Clone(callBase), more...)...)
}

// toolCall reduces the chat actions about one call.
func toolCall(state, action Object) (Object, bool) {
	turn := running(state, action)
	if turn == nil {
		return state, false
	}
	parts := list(turn["responseParts"])
	if action["type"] == "chat/toolCallStart" {
		call := keep(action)
		call["status"] = "streaming"
		return putParts(state, turn, append(slices.Clone(parts), Object{"kind": "toolCall", "toolCall": call}))
	}
	i := slices.IndexFunc(parts, func(v any) bool {
		return object(v)["kind"] == "toolCall" && object(object(v)["toolCall"])["toolCallId"] == action["toolCallId"]
	})
	if i < 0 {
		return state, false
	}
	call := step(object(object(parts[i])["toolCall"]), action)
	if call == nil {
		return state, false
	}
	parts = replaced(parts, i, with(object(parts[i]), "toolCall", call))
	switch action["type"] {
	case "chat/toolCallDelta", "chat/toolCallContentChanged":
		return putParts(state, turn, parts)
	}
	return setParts(state, turn, parts)
}

// step is the next state of a call, or nil when the action does not fit.
func step(call, action Object) Object {
	var next Object
	switch action["type"] {
	case "chat/toolCallDelta":
		next = streamInput(call, action)
	case "chat/toolCallReady":
		next = ready(call, action)
	case "chat/toolCallConfirmed":
		next = confirm(call, action)
	case "chat/toolCallComplete":
		next = complete(call, action)
	case "chat/toolCallResultConfirmed":
		next = confirmResult(call, action)
	case "chat/toolCallContentChanged":
		if call["status"] == "running" {
			next = with(call, "content", action["content"])
		}
	case "chat/toolCallAuthRequired":
		if call["status"] == "running" && object(call["contributor"])["kind"] == "mcp" {
			next = with(with(call, "status", "auth-required"), "auth", action["auth"])
		}
	case "chat/toolCallAuthResolved":
		if call["status"] == "auth-required" {
			next = with(with(call, "status", "running"), "auth", nil)
		}
	}
	if next != nil && action["_meta"] != nil {
		next["_meta"] = action["_meta"]
	}
	return next
}

func streamInput(call, action Object) Object {
	if call["status"] != "streaming" {
		return nil
	}
	next := with(call, "invocationMessage", or(action["invocationMessage"], call["invocationMessage"]))
	if piece, given := action["content"].(string); given {
		next["partialInput"] = text(call["partialInput"]) + piece
	}
	return next
}

// or is a, unless that is absent.
func or(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// ready closes the input of a call. With a reason to run it runs; without one
// it waits for a person.
func ready(call, action Object) Object {
	from := call["status"]
	if from != "streaming" && from != "running" && from != "pending-confirmation" {
		return nil
	}
	next := keep(call)
	next["contributor"] = contributor(call, action)
	if next["contributor"] == nil {
		delete(next, "contributor")
	}
	if v := action["intention"]; v != nil {
		next["intention"] = v
	}
	next["invocationMessage"] = action["invocationMessage"]
	input := action["toolInput"]
	if input == nil && from != "streaming" {
		input = call["toolInput"]
	}
	if input != nil {
		next["toolInput"] = input
	}
	if reason := action["confirmed"]; reason != nil {
		next["status"], next["confirmed"] = "running", reason
		return next
	}
	next["status"] = "pending-confirmation"
	for _, k := range []string{"confirmationTitle", "riskAssessment", "edits", "editable", "options"} {
		v := action[k]
		if v == nil && from == "pending-confirmation" {
			v = call[k]
		}
		if v != nil {
			next[k] = v
		}
	}
	return next
}

// contributor refines who a call belongs to. A client's call stays that
// client's, and no other call becomes a client's.
func contributor(call, action Object) any {
	old, offered := call["contributor"], action["contributor"]
	if offered == nil || object(old)["kind"] == "client" || object(offered)["kind"] == "client" {
		return old
	}
	return offered
}

func confirm(call, action Object) Object {
	if call["status"] != "pending-confirmation" {
		return nil
	}
	next := keep(call, "invocationMessage", "toolInput")
	if id := text(action["selectedOptionId"]); id != "" {
		options := list(call["options"])
		if i := index(options, "id", id); i >= 0 {
			next["selectedOption"] = options[i]
		}
	}
	if yes(action["approved"]) {
		next["status"], next["confirmed"] = "running", action["confirmed"]
		if _, inline := call["toolInput"].(string); inline && action["editedToolInput"] != nil {
			next["toolInput"] = action["editedToolInput"]
		}
		return next
	}
	next["status"] = "cancelled"
	for _, k := range []string{"reason", "reasonMessage", "userSuggestion"} {
		if v := action[k]; v != nil {
			next[k] = v
		}
	}
	return next
}

func complete(call, action Object) Object {
	result := object(action["result"])
	next := keep(call, "invocationMessage", "toolInput", "confirmed", "selectedOption")
	switch call["status"] {
	case "running":
	case "pending-confirmation":
		next["confirmed"] = "not-needed"
	case "auth-required":
		if yes(result["success"]) {
			return nil
		}
		if v := call["content"]; v != nil {
			next["content"] = v
		}
	default:
		return nil
	}
	for k, v := range result {
		if v != nil {
			next[k] = v
		}
	}
	next["status"] = "completed"
	if yes(action["requiresResultConfirmation"]) && call["status"] != "auth-required" {
		next["status"] = "pending-result-confirmation"
	}
	return next
}

func confirmResult(call, action Object) Object {
	if call["status"] != "pending-result-confirmation" {
		return nil
	}
	if yes(action["approved"]) {
		return with(call, "status", "completed")
	}
	next := keep(call, "invocationMessage", "toolInput", "selectedOption")
	next["status"], next["reason"] = "cancelled", "result-denied"
	return next
}

// skipped is what an open call becomes when its turn ends under it.
func skipped(call Object) Object {
	if call["status"] == "completed" || call["status"] == "cancelled" {
		return call
	}
	next := keep(call, "invocationMessage", "toolInput")
	if call["status"] == "streaming" {
		delete(next, "toolInput")
	}
	if next["invocationMessage"] == nil {
		next["invocationMessage"] = ""
	}
	next["status"], next["reason"] = "cancelled", "skipped"
	return next
}
