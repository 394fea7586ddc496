package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
)

// Program names an agent's program and how to get it.
type Program struct {
	// Title is what people call it.
	Title string
	// Name is looked up on the PATH.
	Name string
	// Var is the environment variable with another path; Var with "_ARGS"
	// after it has further arguments, separated by spaces.
	Var string
	// Install is the command that installs or updates it.
	Install string
	// Oldest is the oldest version that works, "" for any.
	Oldest string
}

// Find returns the program's path and the further arguments, or an
// *agent.Problem.
func (p Program) Find() (path string, args []string, err error) {
	args = strings.Fields(os.Getenv(p.Var + "_ARGS"))
	name, named := p.Name, false
	if v := os.Getenv(p.Var); v != "" {
		name, named = v, true
	}
	path, err = exec.LookPath(name)
	switch {
	case err == nil:
		return path, args, nil
	case named:
		return "", nil, &agent.Problem{Code: agent.ProblemMissing, Message: fmt.Sprintf("%s is not at %s, where %s says", p.Title, name, p.Var), Fix: "correct " + p.Var + ", or: " + p.Install}
	}
	return "", nil, &agent.Problem{Code: agent.ProblemMissing, Message: p.Title + " is not installed", Fix: p.Install}
}

// Version asks the program for its version, which must come within the
// context's time; one that is too old is an *agent.Problem beside the version.
func (p Program) Version(ctx context.Context, s Spec) (string, error) {
	s.Args = append(s.Args[:len(s.Args):len(s.Args)], "--version")
	out, err := Output(ctx, s)
	if err != nil {
		return "", &agent.Problem{Code: agent.ProblemBroken, Message: fmt.Sprintf("%s does not start: %v", p.Title, err), Fix: p.Install}
	}
	v := versionShape.FindString(out)
	if v == "" {
		return "", &agent.Problem{Code: agent.ProblemBroken, Message: p.Title + " does not tell its version", Fix: p.Install}
	}
	if Older(v, p.Oldest) {
		return v, &agent.Problem{Code: agent.ProblemTooOld, Message: fmt.Sprintf("%s %s is too old, %s is needed", p.Title, v, p.Oldest), Fix: p.Install}
	}
	return v, nil
}

var versionShape = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// Older compares dotted numbers.
func Older(v, than string) bool {
	a, b := strings.Split(v, "."), strings.Split(than, ".")
	for i := range max(len(a), len(b)) {
		if x, y := number(a, i), number(b, i); x != y {
			return x < y
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i])
	return n
}

// Output runs a program to its end and returns what it wrote to stdout, or to
// stderr if that is all it wrote to, cut at a bound. The program and all it started are gone when it returns.
func Output(ctx context.Context, s Spec) (string, error) {
	p, err := Start(s)
	if err != nil {
		return "", err
	}
	p.CloseInput()
	defer p.Release()
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() })
	defer stop()
	b, err := io.ReadAll(io.LimitReader(p.out, outputBytes))
	if err == nil {
		_, err = io.Copy(io.Discard, p.out)
	}
	<-p.Done()
	stopErr := p.Kill()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("no end in time: %w", ctx.Err())
	case p.Code() != 0:
		return "", errors.New(p.Exit())
	}
	if len(b) == 0 {
		return p.Tail(), errors.Join(err, stopErr)
	}
	return string(b), errors.Join(err, stopErr)
}
