// Package terminal runs shells in pseudoterminals and keeps what they show.
//
// A Set owns its terminals. Each has a shell, or one command, as the leader of
// a session of its own; when the leader ends, or the terminal is ended, what it
// started ends with it: first it is asked to (HUP, TERM), then it is killed. The
// package knows no protocol and no agent.
//
// Order: whatever happens to a terminal is an Event, made under the terminal's
// lock and told to its watchers under it, so that a View in between agrees with
// the events before and after it. The exit is told after all output.
//
// Bounds: the newest output is kept (scrollback); older output is forgotten, cut
// where a line begins. A flood is read at a bounded pace, so that the program
// waits and nothing is lost. Input that a shell does not read is refused when too
// much of it waits.
//
// Who may block: nobody who calls or watches. Watchers are called by the
// goroutine that reads the pseudoterminal and must hand on what they hear.
//
// Command detection is the shell's own word: a start-up script of ours, which
// reads the user's own first and touches no file of theirs, lets bash (4.4 or
// newer) and zsh mark prompts, command lines and exit codes with OSC 133 and the
// working directory with OSC 7. Other shells may do so by themselves. The marks are
// taken out of the output.
package terminal
