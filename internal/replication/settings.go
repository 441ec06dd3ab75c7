package replication

import (
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// Settings is the [replica] section.
type Settings struct {
	location.Settings

	Interval   time.Duration `toml:"interval" doc:"Time between restore points."`
	Retention  time.Duration `toml:"retention" doc:"How long to keep a restore point per five minutes. All restore points from the last hour are kept."`
	Keep       string        `toml:"keep" doc:"Older restore points to keep: the newest per hour (h), day (d), week (w), month (m) and year (y), e.g. 7d 4w 6m."`
	SpoolBytes int64         `toml:"spool_bytes" unit:"bytes" doc:"Disk space per database for unsent changes in the data folder. Beyond it, they are dropped, and the whole database is sent once the replica is reachable again."`
}

// Defaults returns the settings without a URL: no replica.
func Defaults() Settings {
	return Settings{Interval: time.Second, Retention: 7 * 24 * time.Hour, Keep: "7d 4w", SpoolBytes: 256 << 20}
}

// Check returns problems with keys relative to the section.
func (s *Settings) Check() (problems conf.Problems) {
	problems = s.Settings.Check()
	if s.Interval < 100*time.Millisecond || s.Interval > time.Hour {
		problems.Addf("interval", "must be from 100ms to 1h")
	}
	if s.Retention < time.Hour {
		problems.Addf("retention", "must be at least 1h")
	}
	if _, err := replica.ParseKeep(s.Keep); err != nil {
		problems.Addf("keep", "%s", errcode.Message(err))
	}
	if s.SpoolBytes < 1<<20 {
		problems.Addf("spool_bytes", "must be at least 1048576")
	}
	return problems
}
