package overview

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
)

// Condition names as sent in alerts.
const (
	NotReady    = "not-ready"
	CheckFails  = "check"
	Certificate = "certificate"
	DiskFull    = "disk-full"
	BackupLate  = "backup-late"
	BackupFails = "backup-failed"
	ReplicaLate = "replica-late"
	SweepLate   = "sweep-late"
	Backlog     = "backlog"
)

const (
	alertChecksAge = 10 * time.Minute // alerts use findings up to this age; a check reads all databases
	leastGrowth    = 6 * time.Hour    // a shorter period does not predict days
	leastFree      = 0.1              // share of the disk: warning
	almostNoneFree = 0.02             // share of the disk: error
)

// Conditions returns everything that is wrong now, for alerts.Alerts, which compares it with the previous result and
// sends the differences. It asks databases and may take some seconds.
func (o *Overview) Conditions(ctx context.Context, s alerts.Settings) (all []alerts.Condition) {
	unready := o.Unready(ctx)
	for _, running := range o.Services {
		if err := unready[running.Name]; err != nil {
			all = append(all, alerts.Condition{Name: NotReady, Subject: running.Name, State: service.Wrong, Says: err.Error(), Fix: "run: holdfast check"})
		}
	}
	findings, _ := o.Checks.Latest(ctx, o.Clock(), alertChecksAge, checkPatience)
	for _, f := range findings {
		if f.State == service.Wrong {
			all = append(all, alerts.Condition{Name: CheckFails, Subject: f.What, State: f.State, Says: f.Says, Fix: f.Fix})
		}
	}
	if state, early := o.Certificate(); state != nil {
		all = append(all, certificateConditions(*state, early, o.Clock())...)
	}
	all = append(all, o.diskConditions(s.DiskDays)...)
	if state := o.Replica(); state != nil && s.ReplicaLag > 0 && state.Lag > s.ReplicaLag {
		f := state.Finding()
		all = append(all, alerts.Condition{Name: ReplicaLate, State: f.State, Says: f.Says, Fix: f.Fix})
	}
	if c := o.backupCondition(s.BackupAge); c != nil {
		all = append(all, *c)
	}
	settings := o.Backups.Settings()
	if failed := settings.Failure(o.Data); failed != nil {
		all = append(all, alerts.Condition{Name: BackupFails, State: service.Warning, Says: failed.Text(), Fix: "see the log, and run: holdfast backup"})
	}
	for _, job := range o.Sweeps.list() {
		switch {
		case job.fails():
			all = append(all, alerts.Condition{Name: SweepLate, Subject: job.job, State: service.Warning, Says: "the sweep fails: " + failureText(job.err)})
		case job.late(o.Clock()):
			all = append(all, alerts.Condition{Name: SweepLate, Subject: job.job, State: service.Warning, Says: "the sweep is late"})
		}
	}
	return append(all, o.backlogConditions(ctx)...)
}

// certificateConditions warns from early before the certificate expires, and if a new certificate cannot be used.
// There is nothing to report while the first certificate is being requested.
func certificateConditions(s certificates.State, early time.Duration, now time.Time) []alerts.Condition {
	c := alerts.Condition{Name: Certificate, State: service.Warning, Says: s.Problem, Fix: "run: holdfast check"}
	left := s.Until.Sub(now)
	switch {
	case s.Until.IsZero() && s.Problem == "", left >= early && s.Problem == "": // the first certificate is pending, or all is well
		return nil
	case s.Until.IsZero():
		c.State, c.Says = service.Wrong, "there is no certificate: "+s.Problem
		return []alerts.Condition{c}
	case left <= 0:
		c.State = service.Wrong
	}
	ends := "the certificate ends on " + s.Until.UTC().Format(time.DateOnly)
	if c.Says = ends; s.Problem != "" {
		c.Says += ", and a new one cannot be used: " + s.Problem
	}
	return []alerts.Condition{c}
}

// disk is a file system with SQLite databases.
type disk struct {
	where      string  // the first database on it
	free, size float64 // bytes, like size
	grown      float64 // bytes per day
}

// disks returns the disks with databases. Databases with equal numbers of free and total bytes are on the same disk;
// their growth is added. Growth over less than leastGrowth is not counted.
func (o *Overview) disks() (all []*disk) {
	for _, d := range o.databases() {
		if !d.Embedded() {
			continue
		}
		free, size, err := d.Disk()
		if err != nil || size == 0 {
			continue
		}
		at := slices.IndexFunc(all, func(other *disk) bool { return other.free == free && other.size == size })
		if at < 0 {
			at, all = len(all), append(all, &disk{where: d.Where, free: free, size: size})
		}
		if _, grown, in, known := o.History.growth(d.Where); known && in >= leastGrowth {
			all[at].grown += float64(grown) / (in.Hours() / 24)
		}
	}
	return all
}

// diskConditions warns days before a disk is full (alerts.disk_days).
func (o *Overview) diskConditions(days int) (all []alerts.Condition) {
	for _, d := range o.disks() {
		if c := d.condition(days); c != nil {
			c.Name, c.Subject = DiskFull, "the disk of "+d.where
			all = append(all, *c)
		}
	}
	return all
}

// days predicts when the databases fill the disk; 0: unknown, or no growth.
func (d *disk) days() int {
	if d.grown <= 0 {
		return 0
	}
	return int(d.free/d.grown) + 1
}

// condition returns nil while the disk has enough space. Databases that grow warn days before they fill it.
func (d *disk) condition(days int) *alerts.Condition {
	const fix = "free some space, e.g. delete old backups, or move the data folder to a larger disk"
	left := service.FormatBytes(int64(d.free)) + " free"
	switch {
	case d.free < almostNoneFree*d.size:
		return &alerts.Condition{State: service.Wrong, Says: left, Fix: fix}
	case d.free < leastFree*d.size:
		return &alerts.Condition{State: service.Warning, Says: left, Fix: fix}
	case d.grown > 0 && d.free/d.grown < float64(days):
		return &alerts.Condition{State: service.Warning, Says: fmt.Sprintf("%s, and the databases fill that within %s", left, service.Count(int64(d.days()), "day")), Fix: fix}
	}
	return nil
}

// backupCondition returns nil if the newest backup is younger than limit and the schedule is kept, if limit is 0
// (off), or if no database is a file: then backups are the database server's matter.
func (o *Overview) backupCondition(limit time.Duration) *alerts.Condition {
	settings := o.Backups.Settings()
	if limit == 0 || !o.hasFiles() {
		return nil
	}
	c := &alerts.Condition{Name: BackupLate, State: service.Warning, Says: "there is no backup", Fix: "run: holdfast backup"}
	b, err := backup.Read(o.Data)
	switch {
	case err != nil:
		c.Says, c.Fix = "it is not known when the latest backup was made: "+backup.RecordFile+" cannot be read", "make a backup, which writes the file again"
	case b != nil && settings.Late(o.Data, o.Clock()):
		c.Says = "by backup.schedule, the next backup is late"
	case b != nil && o.Clock().Sub(b.At) <= limit:
		return nil
	case b != nil:
		c.Says = "the latest backup is " + formatSpan(o.Clock().Sub(b.At)) + " old: " + b.Path
	}
	return c
}

// backlogConditions reports the backlogs that a service marks as too large.
func (o *Overview) backlogConditions(ctx context.Context) (all []alerts.Condition) {
	o.eachBacklog(ctx, func(name string, facts []service.Fact, _ error) { // an error means that the service is not ready
		for _, f := range facts {
			if f.Cell.State == service.Warning || f.Cell.State == service.Wrong {
				all = append(all, alerts.Condition{Name: Backlog, Subject: name + ", " + f.Name, State: f.Cell.State, Says: f.Cell.Text, Fix: "see its page in the console"})
			}
		}
	})
	return all
}
