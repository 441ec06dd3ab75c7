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

	Keep     string `toml:"keep" reload:"true" doc:"Backups to keep: the newest per hour (h), day (d), week (w), month (m) and year (y), e.g. 7d 4w 6m. Older backups are deleted after the next backup. Empty: keep all."`
	Schedule string `toml:"schedule" reload:"true" doc:"When the server makes backups: times, e.g. 03:30 or 03:30 15:30, or an interval, e.g. 6h. Empty: never."`
	Verify   bool   `toml:"verify" reload:"true" doc:"After each backup, also restore its databases temporarily into the data folder and read them; needs as much disk space. For encrypted backups this requires holdfast backup --identity. Uploaded data is always read back."`
}

// Defaults returns the settings without a URL: no backups.
func Defaults() Settings { return Settings{Keep: "7d 4w 6m", Verify: true} }

// NewKey returns a private key in age-keygen's format, and its public key. The file also names the signer, unless it is
// zero.
func NewKey(now time.Time, signer Signer) (file, public string, err error) {
	return location.NewKey(now, signer)
}

// Check returns problems with keys relative to the section.
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
