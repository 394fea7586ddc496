package ahp

import (
	"context"
	"errors"

	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/terminal"
	"github.com/polyhost/polyhost/core/watch"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// The protocol's own error codes.
const (
	codeSessionNotFound    = -32001
	codeProviderNotFound   = -32002
	codeSessionExists      = -32003
	codeTurnInProgress     = -32004
	codeUnsupportedVersion = -32005
	codeAuthRequired       = -32007
	codeNotFound           = -32008
	codePermissionDenied   = -32009
	codeAlreadyExists      = -32010
	codeConflict           = -32011
)

// errorTable maps the core's errors: what a client is told, and the words of a
// refused action. The text of the error itself is shown where told says so:
// those texts are written for people and name what was wrong.
var errorTable = []struct {
	err  error
	code int
	text string
	told bool
}{
	{host.ErrNotFound, codeSessionNotFound, "no such session", false},
	{host.ErrExists, codeSessionExists, "the name is taken", false},
	{host.ErrBadDir, jsonrpc.CodeInvalidParams, "", true},
	{host.ErrNoBackend, codeProviderNotFound, "no such agent", false},
	{host.ErrBusy, codeTurnInProgress, "a turn is running", false},
	{host.ErrResolved, codeConflict, "somebody has settled that already", false},
	{host.ErrInvalid, jsonrpc.CodeInvalidParams, "", true},
	{host.ErrTooLarge, jsonrpc.CodeInvalidParams, "", true},
	{host.ErrUnsupported, jsonrpc.CodeInvalidParams, "", true},
	{terminal.ErrFull, jsonrpc.CodeServerBusy, "", true},
	{terminal.ErrShell, jsonrpc.CodeInvalidParams, "the shell cannot be started", false},
	{terminal.ErrClosed, jsonrpc.CodeInternalError, "the gateway is stopping", false},
	{host.ErrClosed, jsonrpc.CodeInternalError, "the gateway is stopping", false},
	{files.ErrNotFound, codeNotFound, "", true},
	{files.ErrDenied, codePermissionDenied, "", true},
	{files.ErrExists, codeAlreadyExists, "", true},
	{files.ErrConflict, codeConflict, "", true},
	{files.ErrInvalid, jsonrpc.CodeInvalidParams, "", true},
	{files.ErrTooLarge, jsonrpc.CodeInvalidParams, "", true},
	{automation.ErrNotFound, codeSessionNotFound, "no such automation", false},
	{automation.ErrExists, codeAlreadyExists, "", true},
	{automation.ErrInvalid, jsonrpc.CodeInvalidParams, "", true},
	{automation.ErrTooMany, jsonrpc.CodeServerBusy, "", true},
	{automation.ErrOver, codeConflict, "", true},
	{forge.ErrNoToken, codeAuthRequired, "", true},
	{forge.ErrNotFound, codeNotFound, "", true},
	{forge.ErrRefused, codeConflict, "", true},
	{forge.ErrUnreachable, jsonrpc.CodeInternalError, "", true},
	{git.ErrDirty, jsonrpc.CodeInvalidParams, "", true},
	{git.ErrNoRepository, codeNotFound, "", true},
	{git.ErrNotFound, codeNotFound, "", true},
	{git.ErrNoCommit, jsonrpc.CodeInvalidParams, "", true},
	{git.ErrNothing, jsonrpc.CodeInvalidParams, "", true},
	{git.ErrInvalid, jsonrpc.CodeInvalidParams, "", true},
	{git.ErrTooLarge, jsonrpc.CodeInvalidParams, "", true},
	{git.ErrRefused, codeConflict, "", true},
	{watch.ErrInvalid, jsonrpc.CodeInvalidParams, "", true},
	{watch.ErrTooMany, jsonrpc.CodeServerBusy, "", true},
	{watch.ErrClosed, jsonrpc.CodeInternalError, "the gateway is stopping", false},
	{devcontainer.ErrMissing, codeNotFound, "", true},
	{devcontainer.ErrBusy, codeConflict, "", true},
	{devcontainer.ErrFailed, jsonrpc.CodeInternalError, "", true},
	{devcontainer.ErrEnded, codeNotFound, "", true},
	{context.Canceled, jsonrpc.CodeInternalError, "the request was cancelled", false}, // its connection is gone: no fault of ours
}

// mapError is what a client is told of an error of the core, or nil when that
// is none of its business.
func mapError(_ string, err error) *jsonrpc.Error {
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			e := &jsonrpc.Error{Code: row.code, Message: row.text}
			if row.told {
				e.Message = err.Error()
			}
			switch {
			case row.code == codePermissionDenied:
				e.Data = struct{}{} // required, and there is no grant that would help
			case row.code == codeAuthRequired:
				e.Data = map[string]any{"resources": []lendable{githubResource}}
			case row.err == git.ErrDirty:
				e.Data = map[string]string{"reason": "dirtyWorkingTree"} // editors offer to stash or commit then
			}
			return e
		}
	}
	return nil
}

// refusal is why an action was not taken, for people.
type refusal string

func (r refusal) Error() string { return string(r) }

// refusalText is what the sender of an action reads.
func refusalText(err error) string {
	var r refusal
	if errors.As(err, &r) {
		return string(r)
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return rpc.Message
	}
	if e := mapError("", err); e != nil {
		return e.Message
	}
	return "the gateway could not do that"
}

func notFound(uri string) *jsonrpc.Error {
	return jsonrpc.Errorf(codeNotFound, "no such channel: %.200s", uri)
}

func sessionNotFound(uri string) *jsonrpc.Error {
	return jsonrpc.Errorf(codeSessionNotFound, "no such session: %.200s", uri)
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, format, args...)
}
