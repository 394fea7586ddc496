// Package agenttest is what the tests of the drivers share: talking to a
// conversation, and tapes. A tape is what a real CLI and its driver said to
// each other in one scenario. It is recorded once, with the real program in
// front of a scripted model, and played to the driver in every run of the
// tests: the test binary, started again in place of the program, waits for
// each line of the driver and answers as the real one did.
//
// It must not know a driver.
package agenttest
