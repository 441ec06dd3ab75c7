package buckets

import (
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
)

// rules reports settings that take no effect.
func (s *Buckets) rules(in service.Settings) (all []conf.Rule) {
	c := &s.cfg
	for _, of := range []struct {
		setting, needs string
		without        bool
	}{
		{"scrub_rate", "scrub_interval", c.ScrubEvery == 0},
		{"scrub_cloud", "scrub_interval", c.ScrubEvery == 0},
		{"drop_events_after", "destinations", len(c.Destinations) == 0},
		{"max_events", "destinations", len(c.Destinations) == 0},
	} {
		all = append(all, conf.Rule{
			Settings: []string{"buckets." + of.setting, "buckets." + of.needs}, When: "buckets." + of.setting + " without buckets." + of.needs,
			Says: conf.Says(of.without && in.Origin(of.setting) != "default", "has no effect without "+of.needs), Fix: "set buckets." + of.needs + ", or unset it",
		})
	}
	return all
}
