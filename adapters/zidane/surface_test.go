package zidane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"
)

// notOffered are the protocol's methods that this server leaves out: they are
// not listed in hello and are answered as unknown.
var notOffered = []string{
	"artifacts.list", "artifacts.read", "auth.configure", "auth.list", "auth.oauth.begin", "auth.oauth.complete", "auth.remove",
	"badges.list", "browser.state", "catalog.mcps", "claudeImport.detect", "claudeImport.preview", "claudeImport.run",
	"commands.exec", "commands.execStop", "completions.items", "completions.submit", "completions.triggers",
	"extensions.actionStatuses", "extensions.actions", "extensions.runAction", "extensions.scaffold",
	"files.diagnostics", "files.diagnosticsInvalidate", "files.diagnosticsTools", "files.resolvePaths", "files.search",
	"git.branches", "git.checkout", "git.clone", "git.commit", "git.createBranch", "git.diff", "git.log", "git.status", "git.sync",
	"git.unwatch", "git.watch", "integrations.list", "integrations.register", "machines.list", "mcp.remove", "mcp.test", "mcp.upsert",
	"onboarding.status", "palette.items", "palette.run", "palette.unwatch", "palette.watch", "panels.content", "panels.list",
	"panels.unwatch", "panels.watch", "plans.setActive", "references.patterns", "references.views", "rpc.call", "rpc.contracts",
	"server.update.check", "server.update.install", "server.update.set", "skills.list", "skills.read",
	"suggest.next", "terminal.close", "terminal.open", "terminal.resize", "terminal.write", "ui.dialog.answer", "ui.dialogs",
}

func TestLeftOutMethodsAreUnknown(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	for _, name := range notOffered {
		c.fails(-32601, name, "{}")
	}
}

// The table in the docs is made from the method table, so that neither drifts.
func TestDocsShowTheSurface(t *testing.T) {
	t.Parallel()
	doctest.Table(t, "../../docs/protocols/zidane.md", "surface", surfaceTable())
}

func surfaceTable() string {
	rows := map[string]string{}
	for name := range earlyMethods {
		rows[name] = "served, also before the handshake"
	}
	for name, m := range methods {
		rows[name] = "served"
		switch m.scope {
		case scopeAdmin:
			rows[name] = "served, admin"
		case scopeMachine:
			rows[name] = "refused: needs a machine connection"
		}
	}
	served := len(rows)
	for _, name := range notOffered {
		rows[name] = "not_implemented"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d methods, %d served.\n\n| method | |\n| --- | --- |\n", len(rows), served-1)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, rows[name])
	}
	return b.String()
}
