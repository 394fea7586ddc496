package cognitio

import (
	_ "embed"
	"encoding/json"
	"log/slog"
	"net/http"
)

// document is the surface as its own clients describe it.
//
//go:embed openapi.json
var document []byte

func getDocument(*call) (any, error) { return json.RawMessage(document), nil }

func getHealth(c *call) (any, error) {
	if err := c.f.deps.Host.Health(c.ctx()); err != nil {
		return nil, &apiError{status: http.StatusServiceUnavailable, name: "UnavailableError", message: err.Error()}
	}
	return map[string]any{"healthy": true, "version": c.f.deps.Version}, nil
}

// What this gateway has none of.
func emptyList(*call) (any, error)   { return []any{}, nil }
func emptyObject(*call) (any, error) { return struct{}{}, nil }

// ofSession is an empty answer about a session that must be there.
func ofSession(v any) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if _, err := c.session(); err != nil {
			return nil, err
		}
		return v, nil
	}
}

func noConsole(*call) (any, error) {
	return map[string]any{"consoleManagedProviders": []string{}, "switchableOrgCount": 0}, nil
}

func noOrgs(*call) (any, error) { return map[string]any{"orgs": []any{}}, nil }

// writeLog takes a client's log line into the gateway's.
func writeLog(c *call) (any, error) {
	var line struct {
		Service string          `json:"service" jsonx:"required"`
		Level   string          `json:"level" jsonx:"required"`
		Message string          `json:"message" jsonx:"required"`
		Extra   json.RawMessage `json:"extra"`
	}
	if err := c.body(&line); err != nil {
		return nil, err
	}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[line.Level]
	if !ok {
		return nil, badPayload("level", "level: want debug, info, warn or error, got %.40q", line.Level)
	}
	c.f.log.Log(c.ctx(), level, "a client says", "service", clip(line.Service), "message", clip(line.Message), "extra", clip(string(line.Extra)))
	return true, nil
}

func clip(s string) string { return s[:min(len(s), maxLogLine)] }

// disposeInstance tells a directory's clients to read everything again. There
// is nothing to dispose of: sessions belong to the gateway.
func disposeInstance(c *call) (any, error) {
	dir := c.workDir()
	c.f.send(newOrigin(dir, c.f.projects.of(dir).ID, []string{canonical(dir)}), "server.instance.disposed", map[string]string{"directory": dir})
	return true, nil
}

func disposeGlobal(c *call) (any, error) {
	c.f.send(everywhere, "global.disposed", struct{}{})
	return true, nil
}

// runInit has the agent write its notes on a project.
func runInit(f *server, w http.ResponseWriter, r *http.Request) {
	f.commandOver(w, r, "session.init", "init")
}

// summarize has the agent shorten its context.
func summarize(f *server, w http.ResponseWriter, r *http.Request) {
	f.commandOver(w, r, "session.summarize", "compact")
}

// commandOver runs a command that the agent may have and says when it is done.
func (f *server) commandOver(w http.ResponseWriter, r *http.Request, op, name string) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	c := &call{r: r, w: w, f: f}
	err := func() error {
		p, err := c.session()
		if err != nil {
			return err
		}
		var body struct {
			MessageID          string `json:"messageID"`
			CustomInstructions string `json:"customInstructions"`
		}
		if err := c.body(&body); err != nil {
			return err
		}
		if !f.hasCommand(p.State().Info.Backend, name) {
			return notServed("the session's agent has no command /%s", name)
		}
		in, err := c.command(p, name, body.CustomInstructions, &promptBody{MessageID: body.MessageID})
		if err != nil {
			return err
		}
		done, err := p.Prompt(c.ctx(), in)
		if err == nil {
			_, err = p.WaitTurn(c.ctx(), p.chat, done.Turn)
		}
		return err
	}()
	takeBy(w, streamWrite)
	if err != nil {
		f.writeError(w, answerFor(err, f.log, op))
		return
	}
	f.writeJSON(w, http.StatusOK, true)
}
