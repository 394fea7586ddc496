package reduce

// customize reduces the session actions about customizations and MCP servers.
func customize(state, action Object) (Object, bool) {
	switch action["type"] {
	case "session/customizationsChanged":
		return place(state, "customizations", action["customizations"])
	case "session/customizationUpdated":
		return place(state, "customizations", upsert(list(state["customizations"]), "id", object(action["customization"])))
	case "session/customizationRemoved":
		return removeCustomization(state, text(action["id"]))
	case "session/customizationToggled":
		decisions := list(action["enablement"])
		return editCustomization(state, text(action["id"]), func(c Object) (Object, bool) { return toggled(c, decisions), true })
	case "session/mcpServerStateChanged":
		return editServer(state, action, func(c Object) (Object, bool) {
			return with(with(c, "state", action["state"]), "channel", action["channel"]), true
		})
	case "session/mcpServerStartRequested":
		return editServer(state, action, func(c Object) (Object, bool) {
			return with(with(c, "state", Object{"kind": "starting"}), "channel", nil), true
		})
	case "session/mcpServerStopRequested":
		return editServer(state, action, func(c Object) (Object, bool) {
			return with(with(c, "state", Object{"kind": "stopped"}), "channel", nil), true
		})
	case "session/mcpServerBackgroundRequested":
		return editServer(state, action, func(c Object) (Object, bool) {
			s := object(c["state"])
			if s["kind"] != "starting" || !yes(s["blocking"]) {
				return c, false
			}
			return with(c, "state", with(s, "blocking", false)), true
		})
	}
	return state, false
}

// editCustomization changes the entry of that id: a top-level one, else the
// first child of that id.
func editCustomization(state Object, id string, edit func(Object) (Object, bool)) (Object, bool) {
	top := list(state["customizations"])
	if i := index(top, "id", id); i >= 0 {
		c, changed := edit(object(top[i]))
		if !changed {
			return state, false
		}
		return place(state, "customizations", replaced(top, i, c))
	}
	for i, v := range top {
		children := list(object(v)["children"])
		j := index(children, "id", id)
		if j < 0 {
			continue
		}
		c, changed := edit(object(children[j]))
		if !changed {
			return state, false
		}
		return place(state, "customizations", replaced(top, i, with(object(v), "children", replaced(children, j, c))))
	}
	return state, false
}

func editServer(state, action Object, edit func(Object) (Object, bool)) (Object, bool) {
	return editCustomization(state, text(action["id"]), func(c Object) (Object, bool) {
		if c["type"] != "mcpServer" {
			return c, false
		}
		return edit(c)
	})
}

func removeCustomization(state Object, id string) (Object, bool) {
	if next, changed := remove(state, "customizations", "id", id); changed {
		return next, true
	}
	top := list(state["customizations"])
	for i, v := range top {
		if c, changed := remove(object(v), "children", "id", id); changed {
			return place(state, "customizations", replaced(top, i, c))
		}
	}
	return state, false
}

// toggled lays decisions on a customization. Plugins and MCP servers keep the
// list; the others keep what follows from its first entry.
func toggled(c Object, decisions []any) Object {
	if c["type"] == "plugin" || c["type"] == "mcpServer" {
		if len(decisions) == 0 {
			return with(c, "enablement", nil)
		}
		return with(c, "enablement", decisions)
	}
	on := true
	if len(decisions) > 0 {
		on = yes(object(decisions[0])["enabled"])
	}
	return with(c, "enabled", on)
}
