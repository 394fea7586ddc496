package codex

import (
	"context"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
)

// skill is one that the program can be told to use.
type skill struct{ name, path, about string }

// skills are those of the conversation. Its mu guards them.
type skills struct {
	list []skill
	// asking: the program is being asked for them; stale: it said meanwhile that
	// they changed.
	asking, stale bool
}

// readSkills asks for the skills that count in a directory. The first of a name
// is the one that its name means.
func readSkills(ctx context.Context, l *link, dir string) ([]skill, error) {
	ctx, cancel := context.WithTimeout(ctx, skillsBound)
	defer cancel()
	var answer struct {
		Data []struct {
			Skills []struct {
				Name        string `json:"name"`
				Path        string `json:"path"`
				Description string `json:"description"`
				Short       string `json:"shortDescription"`
				Enabled     bool   `json:"enabled"`
				Interface   *struct {
					Short string `json:"shortDescription"`
				} `json:"interface"`
			} `json:"skills"`
		} `json:"data"`
	}
	if err := l.call(ctx, "skills/list", map[string]any{"cwds": []string{dir}}, &answer); err != nil {
		return nil, err
	}
	var list []skill
	for _, in := range answer.Data {
		for _, s := range in.Skills {
			about := s.Description
			if s.Short != "" {
				about = s.Short
			}
			if s.Interface != nil && s.Interface.Short != "" {
				about = s.Interface.Short
			}
			known := slices.ContainsFunc(list, func(k skill) bool { return k.name == s.Name })
			if s.Enabled && s.Path != "" && len(s.Name) <= maxSkillName && isWord(s.Name) && s.Name != commandCompact && !known && len(list) < maxSkills {
				list = append(list, skill{s.Name, s.Path, clip(about)})
			}
		}
	}
	return list, nil
}

// isWord reports whether a name can stand behind a slash.
func isWord(name string) bool { return name != "" && !strings.ContainsAny(name, "/ \t\r\n") }

// offered are what a prompt can begin with.
func offered(list []skill) []agent.Command {
	out := []agent.Command{{Name: commandCompact, Description: "Shorten the context of the conversation"}}
	for _, s := range list {
		out = append(out, agent.Command{Name: s.name, Description: s.about, Skill: true})
	}
	return out
}

// learnSkills asks for the skills and says which there are if that is news. What
// changed meanwhile is asked for beside the caller.
func (c *conversation) learnSkills(ctx context.Context, l *link) {
	list, err := readSkills(ctx, l, c.open.Dirs[0])
	if err != nil {
		c.log.Debug("codex does not say which skills it has", "error", err)
	}
	c.say(func() []agent.Frame {
		if c.link != l {
			return nil // another process is asked
		}
		stale := c.skills.stale
		c.skills.asking, c.skills.stale = false, false
		if stale {
			c.skillsChanged(l)
		}
		if err != nil || slices.Equal(list, c.skills.list) {
			return nil
		}
		c.skills.list = list
		return []agent.Frame{{Kind: agent.Offers, Offer: &agent.Offer{Commands: offered(list)}}}
	})
}

// skillsChanged: those that were told may be old. It runs under mu.
func (c *conversation) skillsChanged(l *link) {
	switch {
	case c.ctx.Err() != nil:
	case c.skills.asking:
		c.skills.stale = true
	default:
		c.skills.asking = true
		c.wg.Go(func() { c.learnSkills(c.ctx, l) })
	}
}

// called is the skill that a prompt begins with, behind a slash. It runs under mu.
func (c *conversation) called(text string) (input, bool) {
	word, ok := strings.CutPrefix(strings.TrimSpace(text), "/")
	if end := strings.IndexAny(word, " \t\r\n"); end >= 0 {
		word = word[:end]
	}
	i := slices.IndexFunc(c.skills.list, func(s skill) bool { return s.name == word })
	if !ok || i < 0 {
		return input{}, false
	}
	return input{Type: "skill", Name: word, Path: c.skills.list[i].path}, true
}
