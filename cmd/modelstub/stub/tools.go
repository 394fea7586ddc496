package stub

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// tool is one that the request declares.
type tool struct {
	name   string
	schema schema
	free   bool // takes free text instead of JSON
	shell  bool // the wire's own shell tool, without a schema
}

// schema is what of a JSON schema decides about arguments.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Enum       []any             `json:"enum"`
	Items      *schema           `json:"items"`
}

// UnmarshalJSON takes what it understands: agents declare schemas of every draft.
func (s *schema) UnmarshalJSON(b []byte) error {
	type plain schema
	_ = json.Unmarshal(b, (*plain)(s))
	return nil
}

func (s schema) is(kind string) bool {
	switch t := s.Type.(type) {
	case string:
		return strings.EqualFold(t, kind)
	case []any:
		return slices.ContainsFunc(t, func(x any) bool { return x == kind })
	}
	return false
}

// toolCall is a call that the answer makes.
type toolCall struct {
	name  string
	args  map[string]any
	free  string // the input of a free-text tool
	isRaw bool   // free counts, not args
	shell bool
}

// The names that agents give to their tools, the likeliest first.
var (
	shellTools = []string{"Bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command", "bash", "execute"}
	writeTools = []string{"Write", "write_file", "write", "create_file"}
	editTools  = []string{"Edit", "replace", "edit", "edit_file"}
	readTools  = []string{"Read", "read_file", "read", "view_image"}
	planTools  = []string{"TodoWrite", "update_plan", "todowrite", "write_todos", "TaskCreate"}
	agentTools = []string{"Agent", "Task", "task", "spawn_agent", "collaboration.spawn_agent", "multi_agent_v1.spawn_agent", "invoke_agent"}
)

// What the write directive writes, and the edit directive changes in it.
const (
	greeting = "hello from the stub\nsecond line\n"
	oldWord  = "hello"
	newWord  = "goodbye"
)

func (r *request) tool(names ...string) (tool, bool) {
	for _, name := range names {
		if i := slices.IndexFunc(r.tools, func(t tool) bool { return t.name == name }); i >= 0 {
			return r.tools[i], true
		}
	}
	return tool{}, false
}

// callFor makes the call of a step with a tool the agent declared.
func (r *request) callFor(step string) (toolCall, bool) {
	verb, arg, _ := strings.Cut(step, ":")
	arg = strings.TrimSpace(arg)
	switch verb {
	case "run":
		return r.shellCall(arg)
	case "write":
		return r.writeCall(arg)
	case "edit":
		return r.editCall(arg)
	case "read":
		t, ok := r.tool(readTools...)
		if !ok {
			return r.shellCall("cat " + arg)
		}
		p := r.abs(arg)
		return t.call(map[string]any{"file_path": p, "filePath": p, "path": p, "absolute_path": p}), true
	case "plan":
		return r.planCall()
	case "agent":
		t, ok := r.tool(agentTools...)
		kind := "general"
		if t.name == "Agent" || t.name == "Task" {
			kind = "general-purpose"
		}
		return t.call(map[string]any{"prompt": arg, "message": arg, "description": "A task of its own",
			"subagent_type": kind, "agent_name": "generalist"}), ok
	case "tool":
		name, input, _ := strings.Cut(arg, " ")
		t, _ := r.tool(name)
		c := toolCall{name: name, free: input, isRaw: t.free}
		if !t.free && input != "" && json.Unmarshal([]byte(input), &c.args) != nil {
			return toolCall{}, false
		}
		return c, true
	}
	return toolCall{}, false
}

func (r *request) shellCall(line string) (toolCall, bool) {
	t, ok := r.tool(shellTools...)
	if !ok {
		return r.program(fmt.Sprintf("const r = await tools.exec_command({cmd: %s}); text(r.output ?? JSON.stringify(r));", quote(line)))
	}
	argv := []any{"bash", "-lc", line}
	if t.shell {
		return toolCall{name: t.name, args: map[string]any{"command": argv}, shell: true}, true
	}
	var command any = line
	if t.schema.Properties["command"].is("array") {
		command = argv
	}
	return t.call(map[string]any{"command": command, "cmd": line, "description": "Runs a command"}), true
}

func (r *request) writeCall(name string) (toolCall, bool) {
	if t, ok := r.tool(writeTools...); ok {
		p := r.abs(name)
		return t.call(map[string]any{"file_path": p, "filePath": p, "path": name, "content": greeting}), true
	}
	added := "+" + strings.ReplaceAll(strings.TrimSuffix(greeting, "\n"), "\n", "\n+")
	return r.patch("*** Begin Patch\n*** Add File: " + name + "\n" + added + "\n*** End Patch\n")
}

func (r *request) editCall(name string) (toolCall, bool) {
	t, ok := r.tool(editTools...)
	if !ok {
		line, _, _ := strings.Cut(greeting, "\n")
		return r.patch("*** Begin Patch\n*** Update File: " + name + "\n@@\n-" + line + "\n+" +
			strings.Replace(line, oldWord, newWord, 1) + "\n*** End Patch\n")
	}
	p := r.abs(name)
	return t.call(map[string]any{"file_path": p, "filePath": p, "path": name, "instruction": "change the greeting",
		"old_string": oldWord, "new_string": newWord, "oldString": oldWord, "newString": newWord, "oldText": oldWord, "newText": newWord,
		"edits": []any{map[string]any{"oldText": oldWord, "newText": newWord}}}), true
}

// patch is a call of the tool that applies a patch.
func (r *request) patch(p string) (toolCall, bool) {
	t, ok := r.tool("apply_patch")
	switch {
	case !ok:
		return r.program("text(await tools.apply_patch(" + quote(p) + "));")
	case t.free:
		return toolCall{name: t.name, free: p, isRaw: true}, true
	default:
		return t.call(map[string]any{"input": p, "patch": p}), true
	}
}

// program is a call of a tool that runs a script which calls the other tools.
func (r *request) program(source string) (toolCall, bool) {
	t, ok := r.tool("exec")
	return toolCall{name: t.name, free: source, isRaw: true}, ok && t.free
}

func (r *request) planCall() (toolCall, bool) {
	steps := []struct{ name, status string }{{"Look around", "completed"}, {"Change the file", "in_progress"}, {"Tell", "pending"}}
	t, ok := r.tool(planTools...)
	var todos, plan []any
	for i, s := range steps {
		todo := map[string]any{"content": s.name, "status": s.status, "activeForm": s.name, "description": s.name,
			"priority": "medium", "id": fmt.Sprint(i)}
		if items := t.schema.Properties["todos"].Items; items != nil && len(items.Properties) > 0 {
			for k := range todo {
				if _, known := items.Properties[k]; !known {
					delete(todo, k)
				}
			}
		}
		todos = append(todos, todo)
		plan = append(plan, map[string]any{"step": s.name, "status": s.status})
	}
	if !ok {
		return r.program("text(await tools.update_plan({plan: " + string(mustJSON(plan)) + "}));")
	}
	return t.call(map[string]any{"todos": todos, "plan": plan, "explanation": "three steps",
		"subject": steps[0].name, "description": steps[0].name, "activeForm": steps[0].name}), true
}

// call fills the arguments of a tool: those known that it declares, and
// something for each other one that it requires.
func (t tool) call(known map[string]any) toolCall {
	args := map[string]any{}
	for k, v := range known {
		if _, declared := t.schema.Properties[k]; declared || len(t.schema.Properties) == 0 {
			args[k] = v
		}
	}
	for _, k := range t.schema.Required {
		if _, ok := args[k]; !ok {
			args[k] = t.schema.Properties[k].anything()
		}
	}
	return toolCall{name: t.name, args: args}
}

// anything is a value that fits the schema well enough.
func (s schema) anything() any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.is("number"), s.is("integer"):
		return 1
	case s.is("boolean"):
		return false
	case s.is("array"):
		return []any{}
	case s.is("object"):
		return map[string]any{}
	}
	return "stub"
}

// workdir finds the working directory that agents name in their instructions.
var workdir = regexp.MustCompile("(?:[Ww]orking directory|[Cc]urrent directory|[Ww]orkspace [Dd]irectories|<cwd>)[^/]{0,40}(/[^\\s<>\"'`\\\\]+)")

// abs makes a path absolute: agents' file tools want that.
func (r *request) abs(name string) string {
	if path.IsAbs(name) {
		return name
	}
	dir := r.dir
	if dir == "" {
		if m := workdir.FindSubmatch(r.body); m != nil {
			dir = strings.TrimRight(string(m[1]), ".,;")
		}
	}
	return path.Join("/", dir, name)
}

func quote(s string) string { return string(mustJSON(s)) }

// mustJSON encodes what is made here of strings, numbers and maps.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
