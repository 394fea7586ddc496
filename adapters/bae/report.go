package bae

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// This host has no sandbox driver: the methods for the remote one answer what
// the protocol's server answers where its driver cannot start a container.

// noDriver is the detail of a sandbox that cannot start.
const noDriver = "this host has no sandbox driver"

type imageStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

type images struct {
	Images []imageStatus `json:"images"`
}

func imagesOf(p profile) images {
	out := images{[]imageStatus{}}
	for _, s := range p.Sandboxes {
		out.Images = append(out.Images, imageStatus{s, "error", noDriver})
	}
	return out
}

func (f *Front) startSandbox(ctx context.Context, rq *request) (any, error) {
	if err := rq.room.open(); err != nil {
		return nil, err
	}
	var p struct {
		Image string `json:"image"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Image) == "" {
		return nil, fail(codeParams, "params: image: missing")
	}
	profile, ok := f.registry.profile(rq.key.Profile)
	if !ok {
		return nil, fail(codeState, "the profile is gone")
	}
	known := false
	for _, s := range profile.Sandboxes {
		known = known || s == p.Image
	}
	if !known {
		return nil, slug(codeImage, "sandbox_image_not_allowed", "%.80q is not in the profile's available_sandboxes", p.Image)
	}
	type started struct {
		Image    string `json:"image"`
		Dispatch string `json:"dispatch"`
	}
	type failed struct {
		Dispatch    string `json:"dispatch"`
		Image       string `json:"image"`
		Unsandboxed bool   `json:"unsandboxed"`
		Phase       string `json:"phase"`
		Detail      string `json:"detail"`
	}
	err := rq.room.write(ctx, rq.key.ID,
		noted{"session.sandbox.start", rq.key.ID, mustJSON(started{p.Image, "remote"})},
		noted{"session.sandbox.error", rq.key.ID, mustJSON(failed{"remote", p.Image, false, "start", noDriver})})
	if err != nil {
		return nil, err
	}
	return nil, slug(codeSandboxStart, "sandbox_start_failed", "%s", noDriver)
}

func (f *Front) stopSandbox(context.Context, *request) (any, error) {
	return nil, slug(codeSandboxStopped, "sandbox_not_running", noSandbox)
}

func (f *Front) execSandbox(_ context.Context, rq *request) (any, error) {
	var p struct {
		Command *string `json:"command"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	if p.Command == nil {
		return nil, fail(codeParams, "params: command: missing")
	}
	return nil, slug(codeSandboxStopped, "sandbox_not_running", noSandbox)
}

// reported is the answer to a report.
type reported struct {
	Reported bool `json:"reported"`
}

// reportSandbox records what a client says of a sandbox of its own.
func (f *Front) reportSandbox(ctx context.Context, rq *request) (any, error) {
	var p struct {
		State       string          `json:"state"`
		Image       json.RawMessage `json:"image"`
		Unsandboxed json.RawMessage `json:"unsandboxed"`
		Container   *string         `json:"container_id"`
		Detail      *string         `json:"detail"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	switch p.State {
	case "running", "stopped", "error":
	default:
		return nil, fail(codeParams, "params: state: want running, stopped or error")
	}
	payload := struct {
		Dispatch    string  `json:"dispatch"`
		Image       *string `json:"image"`
		Unsandboxed bool    `json:"unsandboxed"`
		Container   *string `json:"container_id"`
		Detail      *string `json:"detail"`
	}{Dispatch: "local", Container: p.Container, Detail: p.Detail}
	switch string(p.Unsandboxed) {
	case "true":
		payload.Unsandboxed = true
	case "", "null", "false":
	default:
		return nil, fail(codeParams, "params: unsandboxed: want boolean, got %s", jsonx.Kind(p.Unsandboxed))
	}
	absent := len(p.Image) == 0 || string(p.Image) == "null"
	switch {
	case payload.Unsandboxed && !absent:
		return nil, fail(codeParams, "params: image: want null where unsandboxed is true")
	case !payload.Unsandboxed:
		if absent || json.Unmarshal(p.Image, &payload.Image) != nil {
			return nil, fail(codeParams, "params: image: want a string")
		}
	}
	if err := short(payload.Image, p.Container, p.Detail); err != nil {
		return nil, err
	}
	if err := rq.room.write(ctx, rq.key.ID, noted{"session.sandbox." + p.State, rq.key.ID, mustJSON(payload)}); err != nil {
		return nil, err
	}
	return reported{true}, nil
}

// short bounds reported texts.
func short(texts ...*string) error {
	for _, t := range texts {
		if t != nil && len(*t) > maxDetail {
			return fail(codeParams, "params: a text is longer than %d bytes", maxDetail)
		}
	}
	return nil
}

// reportSubagent records what a client says of a subagent of its own.
func (f *Front) reportSubagent(ctx context.Context, rq *request) (any, error) {
	var p struct {
		State    string  `json:"state"`
		Subagent string  `json:"subagent_id"`
		Harness  string  `json:"harness"`
		Model    string  `json:"model"`
		Detail   *string `json:"detail"`
		Reason   *string `json:"reason"`
		ExitCode *int64  `json:"exit_code"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	for _, field := range []struct{ name, value string }{{"subagent_id", p.Subagent}, {"harness", p.Harness}, {"model", p.Model}} {
		if field.value == "" {
			return nil, fail(codeParams, "params: %s: want a non-empty string", field.name)
		}
	}
	if err := short(&p.Subagent, &p.Harness, &p.Model, p.Detail, p.Reason); err != nil {
		return nil, err
	}
	payload := map[string]any{"dispatch": "local", "subagent_id": p.Subagent, "harness": p.Harness, "model": p.Model, "detail": p.Detail}
	switch p.State {
	case "start", "running":
	case "completed":
		payload["exit_code"] = p.ExitCode
	case "failed":
		payload["exit_code"], payload["reason"] = p.ExitCode, p.Reason
	case "cancelled":
		payload["exit_code"], payload["reason"] = p.ExitCode, p.Reason
	default:
		return nil, fail(codeParams, "params: state: want start, running, completed, failed or cancelled")
	}
	if err := rq.room.write(ctx, rq.key.ID, noted{"session.subagent." + p.State, rq.key.ID, mustJSON(payload)}); err != nil {
		return nil, err
	}
	return reported{true}, nil
}

// cancelSubagent ends the turn whose agent runs the subagent: a subagent alone
// cannot be stopped.
func (f *Front) cancelSubagent(ctx context.Context, rq *request) (any, error) {
	var p struct {
		Subagent string `json:"subagent_id"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	if p.Subagent == "" {
		return nil, fail(codeParams, "params: subagent_id: want a non-empty string")
	}
	chat, err := id.ParseBAE("sba", p.Subagent)
	st := rq.room.session().State()
	c := st.Chat(chat)
	if err != nil || c == nil || chat == st.Default {
		return nil, slug(codeSubagent, "subagent_not_found", "no subagent %.80q", p.Subagent)
	}
	running := c.Active != nil
	if running {
		_, err := rq.room.session().Interrupt(ctx, host.Interrupt{Chat: chat, By: actorOf(rq.key), KeepQueue: true})
		if err != nil {
			return nil, err
		}
	}
	return struct {
		Cancelled  bool   `json:"cancelled"`
		Subagent   string `json:"subagent_id"`
		WasRunning bool   `json:"was_running"`
	}{true, p.Subagent, running}, nil
}
