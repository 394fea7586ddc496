// Package editor drives VS Code as a client of the gateway (make e2e-vscode): the
// editor's server, a headless Chromium with its page, and polyhost with the demo
// agent. It is all tests, behind the build tag e2e: they install the editor from
// the npm registry.
package editor
