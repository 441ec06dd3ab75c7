package backup

import (
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.ParseInLocation("2006-01-02 15:04", text, berlin)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, c := range []struct{ schedule, after, want string }{
		{"03:30", "2026-01-10 03:29", "2026-01-10 03:30"},
		{"03:30", "2026-01-10 03:30", "2026-01-11 03:30"},
		{"15:30 03:30", "2026-01-10 03:30", "2026-01-10 15:30"},
		{"15:30 03:30", "2026-01-31 16:00", "2026-02-01 03:30"},
		{"00:00", "2026-12-31 12:00", "2027-01-01 00:00"},
		{"6h", "2026-01-10 03:30", "2026-01-10 09:30"},
		{"03:30", "2026-03-28 12:00", "2026-03-29 03:30"}, // the clock is set forward at 02:00
		{"02:30", "2026-10-24 12:00", "2026-10-25 02:30"}, // and back at 03:00
	} {
		s, err := ParseSchedule(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(at(c.after)); !got.Equal(at(c.want)) {
			t.Errorf("%q after %s is due at %v, want %s", c.schedule, c.after, got, c.want)
		}
	}
	for _, text := range []string{"3:30pm", "24:00", "03:60", "30s", "-6h", "03:30,15:30", "daily", "0"} {
		if s, err := ParseSchedule(text); err == nil || !strings.Contains(err.Error(), "03:30 15:30") {
			t.Errorf("%q is %+v, %v", text, s, err)
		}
	}
	if s, err := ParseSchedule(" "); err != nil || !s.IsZero() {
		t.Errorf("an empty schedule is %+v, %v", s, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for problem, edit := range map[string]func(*Settings){
		"":                    func(*Settings) {},
		"schedule is":         func(s *Settings) { s.Schedule = "6h" },
		"invalid schedule":    func(s *Settings) { s.URL, s.Schedule = "file:///a", "often" },
		"invalid rule":        func(s *Settings) { s.Keep = "14" },
		"must be a URL":       func(s *Settings) { s.URL = "/mnt/backup" },
		"holdfast backup key": func(s *Settings) { s.URL = "s3://bucket" },
	} {
		s := Defaults()
		edit(&s)
		found := s.Check()
		if problem == "" && len(found) > 0 || problem != "" && (len(found) != 1 || !strings.Contains(found[0].What, problem)) {
			t.Errorf("%q: %v", problem, found)
		}
	}
}
