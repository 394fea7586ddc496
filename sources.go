// Package polyhost carries those of the repository's own files that the
// program shows: the limits of its packages, as they stand in the source.
package polyhost

import "embed"

// Limits are the limits.go files of all packages.
//
//go:embed adapters/*/limits.go adapters/*/*/limits.go backends/*/limits.go backends/*/*/limits.go cmd/polyhost/limits.go cmd/polyhost/internal/*/limits.go cmd/modelstub/stub/limits.go
//go:embed core/*/limits.go core/*/*/limits.go plugins/*/limits.go transports/*/limits.go transports/*/*/limits.go
var Limits embed.FS
