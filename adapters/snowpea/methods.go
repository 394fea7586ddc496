package snowpea

import (
	"context"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// handler does one request of an authenticated client.
type handler func(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error)

// capabilities are promises to clients: only what is served.
var capabilities = []string{"approvals", "commands", "hostTools", "providerModelsError", "sessionContinue",
	"sessionSetAgent", "sessions", "settings", "tools"}

// handlers is the method table. What the protocol has and the table has not is
// answered with not_implemented. system.hello is served by the connection.
var handlers = map[string]handler{
	"agent.list":                  agentList,
	"approval.list":               approvalList,
	"approval.respond":            approvalRespond,
	"audio.capabilities":          audioCapabilities,
	"audio.install":               audioInstall,
	"audio.record.start":          refuse("there is no microphone here"),
	"audio.record.stop":           refuse("there is no microphone here"),
	"audio.speak":                 refuse("there is no speech engine here"),
	"audio.transcribe":            refuse("there is no speech engine here"),
	"audio.voices":                empty("voices"),
	"backend.set":                 backendSet,
	"command.list":                commandList,
	"command.run":                 commandRun,
	"file.complete":               fileComplete,
	"gateway.bind":                refuse("there are no chat platforms here"),
	"gateway.list":                empty("bindings"),
	"gateway.sync":                empty("added", "kept", "removed"),
	"llm.sample":                  refuse("models are reached through agents only"),
	"lsp.catalog":                 empty("servers"),
	"lsp.status":                  empty("servers"),
	"permission.allowlist.add":    allowlistAdd,
	"permission.allowlist.list":   allowlistList,
	"permission.allowlist.remove": allowlistRemove,
	"provider.configure":          refuse("an agent keeps its own settings and credentials"),
	"provider.list":               providerList,
	"provider.loginWeb":           providerLogin,
	"provider.models":             providerModels,
	"provider.remove":             refuse("an agent keeps its own settings and credentials"),
	"provider.test":               providerTest,
	"question.list":               questionList,
	"question.respond":            questionRespond,
	"session.artifacts":           sessionArtifacts,
	"session.attach":              sessionAttach,
	"session.close":               sessionClose,
	"session.continue":            sessionContinue,
	"session.create":              sessionCreate,
	"session.deleteSaved":         sessionDeleteSaved,
	"session.interrupt":           sessionInterrupt,
	"session.list":                sessionList,
	"session.notice":              sessionNotice,
	"session.prompt":              sessionPrompt,
	"session.rename":              sessionRename,
	"session.resume":              sessionResume,
	"session.setActive":           sessionSetActive,
	"session.setAgent":            sessionSetAgent,
	"session.setEffort":           sessionSetEffort,
	"session.setMode":             sessionSetMode,
	"session.setModel":            sessionSetModel,
	"session.steer":               sessionSteer,
	"settings.get":                settingsGet,
	"settings.set":                settingsSet,
	"system.checkUpdate":          systemCheckUpdate,
	"system.health":               systemHealth,
	"system.info":                 systemInfo,
	"system.reloadSettings":       systemReload,
	"system.restart":              systemShutdown,
	"system.shutdown":             systemShutdown,
	"system.update":               systemUpdate,
	"tool.list":                   toolList,
	"tool.progress":               toolProgress,
	"tool.register":               toolRegister,
	"tool.unregister":             toolUnregister,
	"usage.summary":               usageSummaryOf,
	"web.search":                  refuse("there is no search provider here"),
}

// refuse serves a method of a thing that cannot be had here.
func refuse(reason string) handler {
	return func(context.Context, *conn, *jsonrpc.Request) (any, error) { return nil, unavailable(reason) }
}

// empty serves lists that hold nothing here.
func empty(lists ...string) handler {
	return func(context.Context, *conn, *jsonrpc.Request) (any, error) {
		out := map[string][]struct{}{}
		for _, l := range lists {
			out[l] = []struct{}{}
		}
		return out, nil
	}
}
