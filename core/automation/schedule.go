package automation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known on machines that have no list of them

	"github.com/robfig/cron/v3"
)

// Schedule is a time that comes again: five fields of cron (minute, hour, day
// of the month, month, day of the week) in a time zone.
type Schedule struct {
	// Expression has numbers, names of months and weekdays, *, lists, ranges
	// and steps; 0 and 7 are Sunday. When both days are restricted, either may
	// match.
	Expression string `json:"expression"`
	// Zone is the name of an IANA time zone.
	Zone string `json:"zone"`
}

const (
	fieldCount    = 5
	weekdayField  = 4
	allowedInCron = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*,-/ \t"
)

var fieldParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parse reads the schedule; its errors are for people.
func (s Schedule) parse() (cron.Schedule, error) {
	if len(s.Expression) > MaxExpression {
		return nil, fmt.Errorf("the expression has over %d bytes", MaxExpression)
	}
	if strings.Trim(s.Expression, allowedInCron) != "" || strings.ContainsAny(s.Expression, "?#=@") {
		return nil, errors.New("the expression has numbers, names, *, commas, hyphens and slashes alone")
	}
	fields := strings.Fields(s.Expression)
	if len(fields) != fieldCount {
		return nil, fmt.Errorf("the expression has %d fields, not %d: minute, hour, day, month and weekday", len(fields), fieldCount)
	}
	for _, f := range fields {
		for item := range strings.SplitSeq(f, ",") {
			if item == "" {
				return nil, fmt.Errorf("the field %.80q has an empty place", f)
			}
		}
	}
	var err error
	if fields[weekdayField], err = weekdays(fields[weekdayField]); err != nil {
		return nil, err
	}
	parsed, err := fieldParser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("the expression %.80q is none: %.200s", s.Expression, err.Error())
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil || s.Zone == "" || s.Zone == "Local" {
		return nil, fmt.Errorf("there is no time zone %.80q", s.Zone)
	}
	spec := parsed.(*cron.SpecSchedule)
	spec.Location = zone
	return spec, nil
}

// check reports why a schedule is none.
func (s Schedule) check() error {
	parsed, err := s.parse()
	if err != nil {
		return err
	}
	if parsed.Next(time.Now()).IsZero() {
		return fmt.Errorf("the time %.80q never comes", s.Expression)
	}
	return nil
}

// after is the first occurrence after a moment; zero when none comes.
func (s Schedule) after(t time.Time) time.Time {
	parsed, err := s.parse()
	if err != nil {
		return time.Time{} // it was checked when it came; the list of zones lost it since
	}
	return parsed.Next(t).UTC()
}

// latest is the last occurrence that is not after now, of which due is one.
func (s Schedule) latest(due, now time.Time) time.Time {
	parsed, err := s.parse()
	if err != nil {
		return due
	}
	// Not from due on: a schedule of every minute has many in a year.
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if !from.After(due) {
			from = due
		} else if at := parsed.Next(from); at.IsZero() || at.After(now) {
			continue
		}
		last := due
		for at := parsed.Next(from.Add(-time.Nanosecond)); !at.IsZero() && !at.After(now); at = parsed.Next(at) {
			last = at
		}
		return last.UTC()
	}
}

// weekdays writes the last field without sevens, which the parser does not
// know: each item with a day becomes the list of its days.
func weekdays(field string) (string, error) {
	var out []string
	for item := range strings.SplitSeq(field, ",") {
		days, every, stepped := strings.Cut(item, "/")
		if days == "*" {
			out = append(out, item)
			continue
		}
		step := 1
		if stepped {
			n, err := strconv.Atoi(every)
			if err != nil || n < 1 {
				return "", fmt.Errorf("the weekday %.80q has no step", item)
			}
			step = n
		}
		first, last, isRange := strings.Cut(days, "-")
		from, ok := weekday(first)
		to := from
		switch {
		case isRange:
			var ok2 bool
			to, ok2 = weekday(last)
			ok = ok && ok2
			if to == 0 && from > 0 {
				to = 7
			}
		case stepped:
			to = 6
		}
		if !ok || from > to {
			return "", fmt.Errorf("%.80q is no weekday", item)
		}
		for d := from; d <= to; d += step {
			out = append(out, strconv.Itoa(d%7))
		}
	}
	return strings.Join(out, ","), nil
}

var dayNames = map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

func weekday(s string) (int, bool) {
	if d, ok := dayNames[strings.ToLower(s)]; ok {
		return d, true
	}
	d, err := strconv.Atoi(s)
	return d, err == nil && d >= 0 && d <= 7
}
