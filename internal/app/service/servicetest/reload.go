package servicetest

import (
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
)

// Effect is a setting's new value, as on the command line.
type Effect struct {
	Text string
	See  func() string // returns the value in use
}

// Reloads changes every reloadable setting in turn and checks that the open service uses the new value, then the
// default again. fresh returns the service with defaults.
func Reloads(t *testing.T, opened *service.Opened, fresh func() service.Service, effects map[string]Effect) {
	t.Helper()
	section := func(s service.Service) []conf.Section { return []conf.Section{{Key: s.Name, Value: s.Config}} }
	for _, path := range conf.Reloadable(section(fresh())) {
		if _, known := effects[path]; !known {
			t.Errorf("%s: no effect of it is known", path)
		}
	}
	for path, e := range effects {
		before, next := e.See(), fresh()
		_, err := conf.Load(section(next), conf.Options{Flags: []conf.Flag{{Name: "--test", Path: path, Value: e.Text}}})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, c := range conf.Changes(section(fresh()), section(next)) {
			if !c.Reloads {
				t.Errorf("%s: a reload does not apply it", c.Path)
			}
		}
		opened.Reload(next.Config, time.Second)
		if got := e.See(); got != e.Text || got == before {
			t.Errorf("%s: the service uses %s, before %s, want %s", path, got, before, e.Text)
		}
		opened.Reload(fresh().Config, time.Second)
		if got := e.See(); got != before {
			t.Errorf("%s: the service uses %s, want %s again", path, got, before)
		}
	}
}
