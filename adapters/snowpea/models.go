package snowpea

import (
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// tiers are the efforts the protocol has words for, weakest first.
var tiers = []string{"low", "medium", "high", "max"}

// effortsOf are the tiers a model offers, weakest first; empty, not nil, when
// it has no such setting.
func effortsOf(info agent.Info, _ string) []string {
	out := []string{}
	for _, t := range tiers {
		if slices.Contains(info.Efforts, t) {
			out = append(out, t)
		}
	}
	return out
}

// pickModel reads a model reference: "vendor:model", a model, or the vendor
// alone for its default. The vendor is the session's backend.
func pickModel(info agent.Info, backend, ref string) (string, error) {
	model := ref
	if vendor, rest, ok := strings.Cut(ref, ":"); ok && vendor == backend {
		model = rest
	} else if ref == backend {
		return event.Inherit, nil
	}
	if !info.Capabilities.SetModel {
		return "", unavailable("the agent does not let its model be chosen")
	}
	if len(info.Models) > 0 && !slices.ContainsFunc(info.Models, func(m agent.Model) bool { return m.ID == model }) || model == "" {
		return "", invalid("model", "there is no model %q", cut(ref, 80))
	}
	return model, nil
}
