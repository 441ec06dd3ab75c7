package overview

import (
	"context"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

const (
	listedBackups = 100              // per target, newest first
	listTimeout   = 20 * time.Second // for a read in the background
)

// Copies lists backups and restore points, read in the background, so that slow targets do not delay pages.
type Copies struct {
	Backups *backup.Scheduler        // the server's; set by backupOperations
	Replica func() location.Settings // the replica's current settings; nil: not ready yet
	Known   replica.Names            // as in backup.Server
	Clouds  location.Clouds          // opens buckets; see package location
	Data    string                   // data folder
	Clock   clock.Clock

	listed listing[[]backup.Listed] // of backup.url
	points listing[replica.Content] // of replica.url
}

// backupOperations returns the operations on backups and on the replica's restore points. Their pages explain the
// settings while there is no target.
func backupOperations(o *Operated) []operate.Operation {
	s, c := &o.Backups, &o.Copies
	c.Backups = s
	setup := func(section, what, more string, url func() string) func() *operate.Setup {
		return func() *operate.Setup {
			if url() != "" {
				return nil
			}
			return &operate.Setup{
				Text:  "There is no place for " + what + " yet. Set " + section + ".url to a folder on another disk or a bucket, and restart the server.",
				Lines: "[" + section + "]\nurl = \"s3://my-bucket?region=eu-central-1&prefix=" + section + "/\"" + more, Guide: "docs/backup.md",
			}
		}
	}
	toBackup := setup("backup", "backups", "\nschedule = \"03:30\"", func() string { return s.Settings().URL })
	toReplica := setup("replica", "a replica", "", func() string {
		if c.Replica == nil {
			return ""
		}
		return c.Replica().URL
	})
	return []operate.Operation{
		operate.With(operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "backup", Doc: "List the newest 100 backups at backup.url", Rows: "backups", Group: "Make a backup",
			Title: "Backups", Empty: "No backup at backup.url is known.", ServerOnly: true, Setup: toBackup,
			Text: "Backups in the folder or bucket backup.url. The command holdfast backup list also reads others.",
		}, c.listBackups), "state", func(context.Context) (listState, error) { return c.listed.state(), nil }),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "backup/show", Doc: "Show a backup, and how to restore it", Title: "Backup", ServerOnly: true}, c.showBackup),
		operate.NewJob(operate.About{
			Path: "backup/make", Doc: "Make a backup to backup.url", Button: "Back up now", ServerOnly: true, Background: true,
			Begun: "backup started", Stop: "Stop the backup", Refuses: s.CanMake, Setup: toBackup, Asks: c.askBackup,
		}, c.makeBackup),
		operate.WithFound[backupDamage](operate.NewJob(operate.About{
			Path: "backup/verify", Doc: "Restore a backup into the data folder for a moment, and read its databases", Button: "Verify", ServerOnly: true, Background: true,
			Begun: "verification started", Stop: "Stop the verification", Refuses: c.canVerify, Ask: "Temporarily needs as much disk space as the databases.",
		}, c.verifyBackup), "Damages", "No damage was found."),
		operate.With(operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "restore-points", Doc: "List the replica's restore points by day", Rows: "days", Group: "List the replica's restore points",
			Title: "Restore points", Empty: "No restore point at replica.url is known.", ServerOnly: true, Setup: toReplica,
			Text: "Moments to which the replica at replica.url can be restored. replica.retention and replica.keep say how many there are.",
		}, c.listPoints), "state", func(context.Context) (listState, error) { return c.points.state(), nil }),
	}
}

// backupOutput is a backup in the list at backup.url.
type backupOutput struct {
	Backup   string       `json:"backup" title:"Backup" subject:"backup" example:"2026-11-21T15:04:05.678Z" doc:"time and name of the backup: it includes all writes acknowledged before"`
	Age      age          `json:"-" title:"Age"`
	Shown    verification `json:"-" title:"Verified"`
	Verified time.Time    `json:"verified,omitzero" doc:"last verified by a restore on this server"`
	Damage   string       `json:"damage,omitempty" doc:"error of that verification"`

	Databases service.Bytes `json:"databases,omitempty" title:"Databases" zero:"-" doc:"bytes to restore, without service files; missing: not recorded"`
	Sent      service.Bytes `json:"sent,omitempty" title:"Sent" zero:"-" doc:"bytes added, compressed and encrypted: changes since the previous backup"`
	Took      string        `json:"took,omitempty" title:"Took" zero:"-" example:"1m3s" doc:"from reading the databases to storing the last byte"`
	Has       string        `json:"has" title:"Content" doc:"databases and other files" example:"secrets.toml"`
	Lacks     lacking       `json:"lacks,omitempty" title:"Lacks" zero:"-" doc:"databases and other files of this server, or in other listed backups, that it does not contain" example:"secrets.toml"`
}

// Offers hides verify for encrypted backups, because the server lacks the key.
func (o backupOutput) Offers(verb string) bool { return verb != "verify" || !o.Shown.isEncrypted }

// lacking lists missing files. The page shows them as a warning.
type lacking string

func (l lacking) Cell() service.Cell {
	if l == "" {
		return service.TextCell("-")
	}
	return service.Cell{State: service.Warning, Text: string(l)}
}

// age is a time span as an operator reads it, e.g. "3 hours".
type age time.Duration

func (a age) String() string { return formatSpan(time.Duration(a)) }

// verification is a backup's latest restore on this server. Every backup is at least read back when it is made.
type verification struct {
	at          time.Time // zero: never restored here
	damage      string    // "" if it was complete
	isEncrypted bool      // the server has no key to restore it
	isEmpty     bool      // it has no database
}

func (v verification) String() string {
	switch {
	case v.damage != "":
		return "damaged at " + service.FormatMoment(v.at) + ": " + v.damage
	case v.isEmpty:
		return "it has no database to read"
	case !v.at.IsZero():
		return "at " + service.FormatMoment(v.at)
	case v.isEncrypted:
		return "read back only: its key is not here"
	}
	return "read back only"
}

func (v verification) Cell() service.Cell {
	switch {
	case v.damage != "":
		return service.Cell{State: service.Wrong, Text: v.String()}
	case v.isEmpty:
		return service.Cell{State: service.Warning, Text: v.String()}
	case !v.at.IsZero():
		return service.Cell{State: service.OK, Text: v.String()}
	}
	return service.TextCell(v.String())
}

// listBackups returns the backups that the background read found so far: none before the first read ends. A missing
// target is an empty list, because the first backup creates it. Lacks compares each backup with the server's
// databases and with all other backups.
func (c *Copies) listBackups(ctx context.Context, _ operate.None) (rows []backupOutput, err error) {
	settings := c.Backups.Settings()
	if settings.URL == "" {
		return nil, nil
	}
	all := c.listed.get(ctx, settings.URL, c.Clock, func(ctx context.Context) ([]backup.Listed, error) {
		trust, err := location.Own(c.Data)
		if err != nil {
			return nil, err
		}
		all, err := backup.List(ctx, backup.Listing{Clouds: c.Clouds, URL: settings.URL, Known: c.Known, Trust: trust, Most: listedBackups})
		if errcode.Is(err, errcode.NotFound) {
			err = nil
		}
		return all, err
	})
	verified := backup.Verified(c.Data, settings.URL)
	has := c.Backups.Server().Files()
	for _, listed := range all {
		has = append(has, listed.Has...)
	}
	for _, listed := range all {
		row := c.row(&listed, verified)
		row.Lacks = lacking(strings.Join(backup.Missing(listed.Has, has), ", "))
		rows = append(rows, row)
	}
	return rows, nil
}

// row describes a backup. verified is indexed by the backup's time in Unix nanoseconds.
func (c *Copies) row(listed *backup.Listed, verified map[int64]backup.Verification) backupOutput {
	v := verified[listed.At.UnixNano()]
	o := backupOutput{
		Backup: listed.At.UTC().Format(time.RFC3339Nano), Age: age(max(0, c.Clock().Sub(listed.At))), Shown: verification{v.At, v.Damage, listed.Encrypted, !listed.HasDatabase()},
		Verified: v.At, Damage: v.Damage, Has: strings.Join(listed.Has, ", "),
	}
	if s := listed.Size; s != nil {
		o.Databases, o.Sent, o.Took = service.Bytes(s.Databases), service.Bytes(s.Sent), s.Duration()
	}
	return o
}

type backupInput struct {
	Backup string `subject:"backup" doc:"backup time, as listed"`
}

// Check lets operate reject the input.
func (in backupInput) Check() error {
	if _, err := time.Parse(time.RFC3339Nano, in.Backup); err != nil {
		return &operate.InputError{Input: "backup", Reason: "expected a backup time, e.g. 2026-11-21T15:04:05Z"}
	}
	return nil
}

// backupDetail is a backup with the commands to restore and to verify it on another machine.
type backupDetail struct {
	backupOutput

	Restore string `json:"restore" text:"Restore it into a new data folder" doc:"command to run"`
	Verify  string `json:"verify,omitempty" text:"Verify it where the private key is" doc:"command to run; missing: the server can verify it"`
}

// showBackup looks the backup up in the list, so a backup that is not among the newest listedBackups is not found.
func (c *Copies) showBackup(ctx context.Context, in backupInput) (d backupDetail, err error) {
	rows, err := c.listBackups(ctx, operate.None{})
	if err != nil {
		return d, err
	}
	at := slices.IndexFunc(rows, func(o backupOutput) bool { return o.Backup == in.Backup })
	if at < 0 {
		return d, errcode.New(errcode.NotFound, "no such backup, or the list is not read yet")
	}
	settings := c.Backups.Settings()
	d = backupDetail{backupOutput: rows[at], Restore: restoreCommand(&settings.Settings, c.signer(), in.Backup)}
	if len(settings.Recipients) > 0 {
		d.Verify = verifyCommand(&settings.Settings, c.signer()) + " --time " + in.Backup
	}
	return d, nil
}

// signer returns the server's public signing key, or zero before the first backup.
func (c *Copies) signer() replica.PublicKey {
	key, _ := location.KnownSigner(c.Data) // without the key, the command asks for it
	return key
}

// verifyCommand returns the command for a machine with the private key, which is called backup.key here.
func verifyCommand(s *location.Settings, signer replica.PublicKey) string {
	return "holdfast backup verify " + service.ShellQuoted(s.URL) + " --identity backup.key" + signedBy(signer)
}

// signedBy returns the flag that names the signing key, or "" if it is not known yet.
func signedBy(signer replica.PublicKey) string {
	if signer.IsZero() {
		return ""
	}
	return " --signed-by " + signer.String()
}

// restoreCommand returns the command that restores the state at a moment, written as RFC 3339.
func restoreCommand(s *location.Settings, signer replica.PublicKey, moment string) string {
	text := "holdfast restore " + service.ShellQuoted(s.URL) + " --time " + moment + signedBy(signer)
	if len(s.Recipients) > 0 {
		text += " --identity backup.key"
	}
	return text + " --data ./restored"
}

// steps returns a function that reports texts as a job's numbered steps. The total is unknown.
func steps(progress operate.Progress) func(what string) {
	done := int64(0)
	return func(what string) {
		done++
		progress.Step(what+", step", done, 0)
	}
}

type backupMade struct {
	Backup   time.Time `json:"backup" title:"Backup" doc:"includes all writes acknowledged before this time"`
	Restored bool      `json:"restored" title:"Restored to verify it"`
}

func (b backupMade) Notice() string { return "made a backup" }

// makeBackup waits until the backup is sent and verified. The backup list is then read again, also after an error,
// because a failed backup may have deleted old ones.
func (c *Copies) makeBackup(ctx context.Context, _ operate.None, progress operate.Progress) (made backupMade, err error) {
	sent, err := c.Backups.Make(ctx, steps(progress))
	c.listed.expire()
	if err != nil {
		return made, errcode.Wrap(errcode.Unavailable, err.Error(), err)
	}
	return backupMade{sent.Point.Time, sent.Restored}, nil
}

// askBackup says what a backup replaces. Without a record of earlier backups, it says nothing.
func (c *Copies) askBackup() string {
	settings := c.Backups.Settings()
	if settings.URL == "" {
		return ""
	}
	gone, err := c.Backups.Server().Replaces(&settings)
	if err != nil {
		return "It is not known which backups it replaces: " + failureText(err) + "."
	}
	return backup.DescribeReplaced(gone)
}

// canVerify returns why the button is disabled. The server knows only public keys, so it cannot restore encrypted
// backups.
func (c *Copies) canVerify() error {
	switch s := c.Backups.Settings(); {
	case s.URL == "":
		return errcode.New(errcode.Invalid, "backup.url is not set")
	case len(s.Recipients) > 0:
		return errcode.New(errcode.Invalid, "the server does not have the backup key: run holdfast backup verify --identity FILE where the key is")
	}
	return nil
}

// backupDamage is a problem that a verification found.
type backupDamage struct {
	What string `json:"what" title:"What"`
	Says string `json:"says" title:"Finding"`
	Fix  string `json:"fix,omitempty" title:"Fix" zero:"-"`
}

type backupVerified struct {
	Wrong int `json:"wrong" title:"Damages" least:"0"`
}

func (v backupVerified) Notice() string { return "verified the backup" }

// IsPartial implements operate.Partial.
func (v backupVerified) IsPartial() bool { return v.Wrong > 0 }

// verifyBackup restores the backup below the data folder and reads it. Damage is a result, not an error.
func (c *Copies) verifyBackup(ctx context.Context, in backupInput, progress operate.Progress) (done backupVerified, err error) {
	at, err := time.Parse(time.RFC3339Nano, in.Backup)
	if err != nil {
		return done, err
	}
	findings, err := c.Backups.Verify(ctx, at, steps(progress))
	if err != nil {
		return done, err
	}
	for _, f := range findings {
		if f.State == service.Wrong {
			done.Wrong++
			progress.Find(backupDamage{f.What, f.Says, f.Fix})
		}
	}
	return done, nil
}
