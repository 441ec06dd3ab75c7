package backup

import (
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// Settings is the [backup] section.
type Settings struct {
	location.Settings

	Keep     string `toml:"keep" reload:"true" doc:"Backups to keep: the newest of each of so many hours (h), days (d), weeks (w), months (m) and years (y) that have one, such as 7d 4w 6m. Others are deleted after a backup. Empty: all are kept."`
	Schedule string `toml:"schedule" reload:"true" doc:"When the server makes backups itself: times of day, such as 03:30 or 03:30 15:30, or an interval, such as 6h. Empty: it makes none."`
	Verify   bool   `toml:"verify" reload:"true" doc:"After each backup, also restore its databases into the data folder for a moment and read them, which takes their disk space. Encrypted backups need holdfast backup --identity for that. What was sent is read back in any case."`
}

// Defaults returns the default settings.
func Defaults() Settings { return Settings{Keep: "7d 4w 6m", Verify: true} }

// NewKey returns a private key in age-keygen's format, and its public key.
func NewKey(now time.Time) (file, public string, err error) { return location.NewKey(now) }

// Check validates the settings.
func (s *Settings) Check() (problems conf.Problems) {
	problems = s.Settings.Check()
	if _, err := replica.ParseKeep(s.Keep); err != nil {
		problems.Addf("keep", "%s", errcode.Message(err))
	}
	if _, err := ParseSchedule(s.Schedule); err != nil {
		problems.Addf("schedule", "%s", errcode.Message(err))
	} else if s.Schedule != "" && s.URL == "" {
		problems.Addf("url", "must be set, because schedule is")
	}
	return problems
}
