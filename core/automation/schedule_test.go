package automation

import (
	"testing"
	"time"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	// A Wednesday.
	from := time.Date(2026, 7, 1, 10, 20, 30, 0, time.UTC)
	for _, c := range []struct{ expression, zone, want string }{
		{"* * * * *", "UTC", "2026-07-01T10:21:00Z"},
		{"*/15 * * * *", "UTC", "2026-07-01T10:30:00Z"},
		{"0 9 * * 1-5", "America/New_York", "2026-07-01T13:00:00Z"},
		{"30 8 * * mon", "Europe/Berlin", "2026-07-06T06:30:00Z"},
		{"0 0 * * 7", "UTC", "2026-07-05T00:00:00Z"},
		{"0 0 * * 0", "UTC", "2026-07-05T00:00:00Z"},
		{"0 0 * * Fri-Sun", "UTC", "2026-07-03T00:00:00Z"},
		{"0 0 * * 6-7", "UTC", "2026-07-04T00:00:00Z"},
		{"0 0 * * 5-7/2", "UTC", "2026-07-03T00:00:00Z"},
		{"0 0 * * 2/3", "UTC", "2026-07-03T00:00:00Z"},
		{"0 0 1,15 * *", "UTC", "2026-07-15T00:00:00Z"},
		{"0 0 13 * FRI", "UTC", "2026-07-03T00:00:00Z"}, // either day
		{"0 12 25 dec *", "UTC", "2026-12-25T12:00:00Z"},
		{"0 0 29 2 *", "UTC", "2028-02-29T00:00:00Z"},
		{"0 4 * Nov SUN", "UTC", "2026-11-01T04:00:00Z"},
	} {
		s := Schedule{c.expression, c.zone}
		if err := s.check(); err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		if got := s.after(from).Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.expression, c.zone, got, c.want)
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for _, s := range []Schedule{
		{"", "UTC"}, {"* * * *", "UTC"}, {"* * * * * *", "UTC"}, {"@daily", "UTC"}, {"@every 1m", "UTC"}, {"TZ=UTC * * * * *", "UTC"},
		{"? * * * *", "UTC"}, {"0 0 L * *", "UTC"}, {"0 0 15W * *", "UTC"}, {"0 0 * * 1#2", "UTC"}, {"60 * * * *", "UTC"}, {"0 24 * * *", "UTC"},
		{"0 0 0 * *", "UTC"}, {"0 0 * 13 *", "UTC"}, {"0 0 * * 8", "UTC"}, {"0 0 * * 5-2", "UTC"}, {"0 0 * * 1/0", "UTC"}, {"0 0 * * ", "UTC"},
		{"1,,2 * * * *", "UTC"}, {", * * * *", "UTC"}, {"5-1 * * * *", "UTC"}, {"*/0 * * * *", "UTC"}, {"-1 * * * *", "UTC"}, {"0 0 31 2 *", "UTC"},
		{"* * * * *", ""}, {"* * * * *", "Local"}, {"* * * * *", "Mars/Olympus"}, {"* * * * *", "../../etc/passwd"}, {"* * * * *", "+02:00"},
	} {
		if s.check() == nil {
			t.Errorf("%q in %q was taken", s.Expression, s.Zone)
		}
	}
}

func TestClocksThatChange(t *testing.T) {
	t.Parallel()
	// New York: 2026-03-08 has no 2:30, 2026-11-01 has 1:30 twice.
	s := Schedule{"30 2 * * *", "America/New_York"}
	if got := s.after(time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)).Format(time.RFC3339); got != "2026-03-09T06:30:00Z" {
		t.Errorf("left out: %s", got)
	}
	s.Expression = "30 1 * * *"
	first := s.after(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	if second := s.after(first); second.Sub(first) != time.Hour {
		t.Errorf("repeated: %s and %s", first, second)
	}
}

func TestTheLatestOccurrence(t *testing.T) {
	t.Parallel()
	due := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 7, 1, 10, 20, 30, 0, time.UTC)
	for expression, want := range map[string]string{
		"* * * * *":   "2026-07-01T10:20:00Z",
		"0 * * * *":   "2026-07-01T10:00:00Z",
		"0 0 1 1 *":   "2026-01-01T00:00:00Z",
		"0 0 1 jan *": "2026-01-01T00:00:00Z",
		"0 0 29 2 *":  "2025-01-01T00:00:00Z", // none since
	} {
		if got := (Schedule{expression, "UTC"}).latest(due, now).Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// FuzzSchedule reads anything as a schedule: what is taken has a next time, after
// the time it is asked for.
func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 1-3,7 1/2 jan-mar,12 mon-sun/2", "TZ= * * * *", "1-2-3 * * * *", "99999999999999999999 * * * *", "* * * * */2"} {
		f.Add(s, "Europe/Berlin")
	}
	now := time.Date(2026, 7, 1, 10, 20, 30, 5, time.UTC)
	f.Fuzz(func(t *testing.T, expression, zone string) {
		s := Schedule{expression, zone}
		if s.check() != nil {
			return
		}
		if next := s.after(now); !next.IsZero() && !next.After(now) {
			t.Errorf("after %v comes %v", now, next)
		}
	})
}
