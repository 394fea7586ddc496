package reduce

func root(state, action Object) (Object, bool) {
	switch action["type"] {
	case "root/agentsChanged":
		return place(state, "agents", action["agents"])
	case "root/activeSessionsChanged":
		return place(state, "activeSessions", action["activeSessions"])
	case "root/terminalsChanged":
		return place(state, "terminals", action["terminals"])
	case "root/configChanged":
		return config(state, action)
	}
	return state, false
}
