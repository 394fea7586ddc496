// Package bench measures a whole gateway as its users have it: the polyhost
// program in a process of its own, agents behind the plugin boundary, and
// clients on real sockets. What must hold on any machine is a test and runs the
// fronts in this process; the rest runs by `make bench` only. What one
// package alone costs is measured beside that package.
//
// The figures are the machine's as well as ours, so each benchmark that judges
// by a ratio takes both of its sides in the same run. docs/performance.md has
// the goals.
package bench
