package replication

import (
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/replica/location"
)

// Settings are the section [replica].
type Settings struct {
	location.Settings

	Interval   time.Duration `toml:"interval" doc:"Time between two restore points."`
	Retention  time.Duration `toml:"retention" doc:"Age up to which there is a restore point for each five minutes. Of the last hour, all are kept."`
	SpoolBytes int64         `toml:"spool_bytes" unit:"bytes" doc:"Disk space, for each database, for changes that wait in the data folder until they are sent. Beyond it, they are dropped, and the database is sent as a whole when the replica can be reached again."`
}

// Defaults returns the settings of a server without configuration.
func Defaults() Settings {
	return Settings{Interval: time.Second, Retention: 7 * 24 * time.Hour, SpoolBytes: 256 << 20}
}

// Check returns what is wrong with the settings.
func (s *Settings) Check() (problems conf.Problems) {
	problems = s.Settings.Check()
	if s.Interval < 100*time.Millisecond || s.Interval > time.Hour {
		problems.Addf("interval", "must be from 100ms to 1h")
	}
	if s.Retention < time.Hour {
		problems.Addf("retention", "must be at least 1h")
	}
	if s.SpoolBytes < 1<<20 {
		problems.Addf("spool_bytes", "must be at least 1048576")
	}
	return problems
}
