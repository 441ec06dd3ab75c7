package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// Listed is a backup in a list.
type Listed struct {
	At  time.Time // when the databases were read
	Has []string  // databases and other files

	Encrypted bool

	Size *Size // nil for restore points of a replica
}

// HasDatabase reports whether the backup contains at least one database.
func (l *Listed) HasDatabase() bool {
	return slices.ContainsFunc(l.Has, func(file string) bool { _, is := engine.ServiceOf(file); return is })
}

type Size = replica.BackupSize

// Listing says which backups List reads, and whom to trust.
type Listing struct {
	Clouds location.Clouds // opens buckets; nil: folders only
	URL    string          // of the repository: a folder or a bucket
	Known  replica.Names   // as in Server
	Trust  replica.Trust   // signers of points; see replica.Trust
	Most   int             // how many, the newest ones; 0: all
}

// List returns the backups or restore points at a URL, newest first.
func List(ctx context.Context, l Listing) (all []Listed, err error) {
	target, closeIt, err := l.Clouds.Open(ctx, l.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	points, err := replica.Points(ctx, target, l.Known, l.Trust, l.Most)
	if errcode.Is(err, errcode.NotFound) {
		return nil, errcode.New(errcode.NotFound, location.Name(l.URL)+" contains no backup: check the folder, or the bucket and its prefix")
	}
	for _, p := range points {
		all = append(all, Listed{p.Time, p.Contents(), p.Encrypted, p.Backup})
	}
	return all, err
}

// Checked is a server's backups for Check and CheckContents.
type Checked struct {
	Settings *Settings       // backup.url, and how old its newest backup may be
	Clouds   location.Clouds // opens buckets; nil: folders only
	Data     string          // data folder
}

// Check checks backup.url and its backups, for `holdfast check`. Without a URL it returns nothing.
func Check(ctx context.Context, c Checked, now time.Time) []service.Finding {
	s, data := c.Settings, c.Data
	if s.URL == "" {
		return nil
	}
	name := location.Name(s.URL)
	f := service.Finding{State: service.Warning, What: "backup", Fix: "see whether " + name + " can be reached and written; backup.url names it"}
	content, problem := Location{Clouds: c.Clouds, What: "backup", Holds: "backups", URL: s.URL, Data: data, Spool: spool(data, s.URL)}.Inspect(ctx)
	if problem != nil {
		f = *problem
	}
	if failed := s.Failure(data); failed != nil {
		f.Says = failed.Text()
		return []service.Finding{f}
	}
	if problem != nil {
		return []service.Finding{f}
	}
	if len(content.Points) == 0 {
		f.Says, f.Fix = name+" contains no backup", "run holdfast backup, or set backup.schedule"
		return []service.Finding{f}
	}
	newest := content.Points[len(content.Points)-1].Time
	if s.Late(data, now) {
		f.Says, f.Fix = "by backup.schedule, the next backup is late: the newest is of "+service.FormatMoment(newest), "see the log of the server"
		return []service.Finding{f}
	}
	verified, isDamaged := describeVerified(data, s.URL, newest)
	says := fmt.Sprintf("%s: %s, the newest from %s, %s, signed by %s", name, service.Count(int64(len(content.Points)), "backup"), service.FormatMoment(newest), verified, content.Key)
	if isDamaged {
		f.Says, f.Fix = says, "make another backup, and verify it"
		return []service.Finding{f}
	}
	return []service.Finding{{State: service.OK, What: "backup", Says: says}}
}

// describeVerified says whether this server verified a backup by a restore. Names of points have milliseconds.
func describeVerified(data, address string, backup time.Time) (text string, isDamaged bool) {
	for _, v := range Verified(data, address) {
		switch {
		case v.Backup.UnixMilli() != backup.UnixMilli():
		case v.Damage != "":
			return "damaged when it was verified at " + service.FormatMoment(v.At) + " (" + v.Damage + ")", true
		default:
			return "verified at " + service.FormatMoment(v.At), false
		}
	}
	return "not restored to verify it", false
}

// Location is the URL of backups or of a replica, to check whether it can be used.
type Location struct {
	Clouds location.Clouds

	What  string // "backup" or "replica": the setting's section
	Holds string // noun for texts, e.g. "backups"
	URL   string
	Data  string // data folder
	Spool string // folder that records whether the server claimed the URL before
}

// Inspect returns the content, or why the URL cannot be used.
func (l Location) Inspect(ctx context.Context) (c replica.Content, problem *service.Finding) {
	name := location.Name(l.URL)
	f := &service.Finding{State: service.Warning, What: l.What, Fix: "see whether " + name + " can be reached and written; " + l.What + ".url names it"}
	if err := location.Outside(l.URL, l.Data); err != nil {
		f.State, f.Says, f.Fix = service.Wrong, errcode.Message(err), "set "+l.What+".url to another folder"
		return c, f
	}
	own, err := location.KnownServerID(l.Data)
	if err != nil {
		f.Says, f.Fix = service.Reason(err), "make the data folder readable"
		return c, f
	}
	signer, err := location.KnownSigner(l.Data)
	if err != nil {
		f.Says, f.Fix = service.Reason(err), "make the data folder readable"
		return c, f
	}
	c, err = l.read(ctx, name)
	switch {
	case errcode.Is(err, errcode.NotFound):
		return c, nil
	case err != nil:
		f.Says = name + ": " + service.Reason(err)
	case c.Server != own:
		f.State, f.Says, f.Fix = service.Wrong, name+" has the "+l.Holds+" from another server", replica.OtherServerFix
	case c.Key != signer:
		f.State, f.Says, f.Fix = service.Wrong, name+" is not signed with this server's key", replica.OtherServerFix
	default:
		return c, nil
	}
	return c, f
}

// read opens the location and inspects it. name is its name in the record; a target that this data folder used before
// and that lost its marker is an error (replica.CheckLost).
func (l Location) read(ctx context.Context, name string) (c replica.Content, err error) {
	target, closeIt, err := l.Clouds.Open(ctx, l.URL)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	if err := replica.CheckLost(ctx, target, l.Spool, name); err != nil {
		return c, err
	}
	c, err = replica.Inspect(ctx, target)
	if errcode.Is(err, errcode.NotFound) {
		if _, listed := target.List(ctx, replica.MarkerName); listed != nil {
			return c, listed
		}
	}
	return c, err
}

// Text is a sentence for operators, without a full stop.
func (f *Failure) Text() string {
	return "the latest backup to " + f.URL + " failed at " + service.FormatMoment(f.At) + ": " + f.Says
}
