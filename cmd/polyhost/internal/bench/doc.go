// Package bench measures a whole gateway as its users have it: the polyhost
// program in a process of its own, agents behind the plugin boundary, and
// clients on real sockets. Nothing here runs but by `make bench`; what one
// package alone costs is measured beside that package.
//
// The figures are the machine's as well as ours, so each benchmark that judges
// by a ratio takes both of its sides in the same run. docs/performance.md has
// the goals.
package bench
