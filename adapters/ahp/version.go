package ahp

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// supportedVersions is what a refusal lists.
var supportedVersions = []string{"1.0.0", "0.10.0", "0.9.0"}

// version is MAJOR.MINOR.PATCH.
type version [3]uint32

// parseVersion reads digits and dots only: no prefix, no pre-release, no
// leading zero.
func parseVersion(s string) (version, error) {
	var v version
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, fmt.Errorf("%.40q is not MAJOR.MINOR.PATCH", s)
	}
	for i, p := range parts {
		if p == "" || len(p) > 1 && p[0] == '0' || strings.Trim(p, "0123456789") != "" {
			return v, fmt.Errorf("%.40q is not MAJOR.MINOR.PATCH", s)
		}
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return v, fmt.Errorf("%.40q is out of range", s)
		}
		v[i] = uint32(n)
	}
	return v, nil
}

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// spoken reports whether we speak a version: 1.x, 0.10.x or 0.9.x, which are
// the caret ranges of the three baselines.
func (v version) spoken() bool { return v[0] == 1 || v[0] == 0 && (v[1] == 9 || v[1] == 10) }

// negotiate picks the highest version of an offer that we speak, as it was
// spelt; "" when there is none. An entry that is no version at all is an
// error, whatever else is offered.
func negotiate(offer []string) (string, error) {
	best, chosen := version{}, ""
	for i, s := range offer {
		v, err := parseVersion(s)
		if err != nil {
			return "", fmt.Errorf("protocolVersions[%d]: %w", i, err)
		}
		if v.spoken() && (chosen == "" || v.compare(best) > 0) {
			best, chosen = v, s
		}
	}
	return chosen, nil
}
