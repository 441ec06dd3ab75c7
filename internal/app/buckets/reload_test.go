package buckets

import (
	"fmt"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/buckets"
)

func TestReload(t *testing.T) {
	t.Parallel()
	s := New()
	opened := servicetest.Open(t, s.Service(), nil).Opened
	limit := func(text string, see func(buckets.Limits) any, also func(*buckets.Config) any) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string {
			rule, job := fmt.Sprint(see(s.opened.Limits())), fmt.Sprint(also(s.live.Load()))
			if rule != job {
				t.Errorf("requests use %s, jobs %s", rule, job)
			}
			return rule
		}}
	}
	servicetest.Reloads(t, opened, func() service.Service { return New().Service() }, map[string]servicetest.Effect{
		"buckets.copies":              limit("3", func(l buckets.Limits) any { return l.Copies }, func(c *buckets.Config) any { return c.Copies }),
		"buckets.inline":              limit("77", func(l buckets.Limits) any { return l.Inline }, func(c *buckets.Config) any { return c.Inline }),
		"buckets.garbage_after":       limit("7h0m0s", func(l buckets.Limits) any { return l.GarbageAfter }, func(c *buckets.Config) any { return c.GarbageAfter }),
		"buckets.storage_classes":     limit("false", func(l buckets.Limits) any { return !l.StandardOnly }, func(c *buckets.Config) any { return c.Classes }),
		"buckets.abort_uploads_after": {Text: "9h0m0s", See: func() string { return s.live.Load().UploadsAfter.String() }},
	})
}
