// Package e2e runs the gateway with the real agent CLIs against a model that
// does what the prompt says (make e2e). Each agent is driven on Snowpea and
// watched on cognitio and the console. It is all tests, behind the build tag
// e2e: they install the CLIs from the npm registry.
package e2e
