package wire

import (
	"github.com/polyhost/polyhost/core/agent"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ProblemStatus is the status that carries a Problem as its detail.
func ProblemStatus(p *agent.Problem) error {
	s := status.New(codes.FailedPrecondition, head(p.Error()))
	detailed, err := s.WithDetails(&Problem{Code: head(p.Code), Message: head(p.Message), Fix: head(p.Fix)})
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}

// ProblemOf is the Problem that a status carries, nil if it carries none.
func ProblemOf(s *status.Status) *agent.Problem {
	for _, d := range s.Details() {
		if p, ok := d.(*Problem); ok {
			return &agent.Problem{Code: p.GetCode(), Message: p.GetMessage(), Fix: p.GetFix()}
		}
	}
	return nil
}
