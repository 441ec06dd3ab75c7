package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// dismissedFile in the data folder has the time until which backups of a file need not be kept, by file.
const dismissedFile = "databases-dismissed.json"

// Dismissed returns the databases, and other files, that an operator dismissed, each with the time: retention keeps the
// newest backup with every other file.
func Dismissed(data string) (until map[string]time.Time, err error) {
	path := filepath.Join(data, dismissedFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]time.Time{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &until)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", path, service.Reason(err))
	}
	return until, nil
}

// Database is a database of the server or of its backups, or another file in the backups.
type Database struct {
	Name  string // of the service, or of the file
	File  string // in backups
	Where string // database now, without secrets; "": the running server has none

	// IsElsewhere reports whether the database is on a database server, which backups do not contain.
	IsElsewhere bool

	Newest    time.Time // of the recorded backups with it; zero: no backup has it
	Path      string    // of that backup: a folder, or a URL without parameters
	Dismissed time.Time // when an operator dismissed it, or zero
}

// NeedsBackup reports whether a database of the server is in no backup, or only in backups from before it was moved to a
// database server and no operator dismissed them.
func (d *Database) NeedsBackup() bool {
	return d.IsElsewhere && !d.IsDismissed() || d.Where != "" && !d.IsElsewhere && d.Newest.IsZero()
}

// IsDismissed reports whether an operator dismissed all backups with the database.
func (d *Database) IsDismissed() bool { return !d.Dismissed.IsZero() && !d.Newest.After(d.Dismissed) }

// Databases returns databases of a server, and the files in the backups that its data folder recorded, by name.
func Databases(data string, server []*engine.Database) (all []Database, err error) {
	known, err := Known(data)
	if err != nil {
		return nil, err
	}
	return databasesIn(known, data, server)
}

// databasesIn is Databases for other backups than the recorded ones.
func databasesIn(known []service.Backup, data string, server []*engine.Database) (all []Database, err error) {
	dismissed, err := Dismissed(data)
	if err != nil {
		return nil, err
	}
	byFile := map[string]*Database{}
	get := func(file string) *Database {
		if byFile[file] == nil {
			name, _ := engine.ServiceOf(file)
			byFile[file] = &Database{Name: cmp.Or(name, file), File: file, Dismissed: dismissed[file]}
		}
		return byFile[file]
	}
	for _, b := range known {
		for _, file := range b.Has {
			if d := get(file); b.At.After(d.Newest) {
				d.Newest, d.Path = b.At, b.Path
			}
		}
	}
	for _, db := range server {
		d := get(engine.FileName(db.Service))
		d.Where, d.IsElsewhere = db.Where, !db.Embedded()
	}
	for _, d := range byFile {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Database) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Databases returns the server's databases and those in its recorded backups, by name.
func (b *Server) Databases() ([]Database, error) { return Databases(b.Data, b.databases()) }

// CheckDatabases finds databases of the server that are in no recorded backup. It returns nothing before the first
// backup. It reads only the data folder, so it is fast; see CheckContents.
func CheckDatabases(data string, server []*engine.Database) []service.Finding {
	if last, err := Read(data); err != nil || last == nil {
		return nil // other findings report it
	}
	known, err := Known(data)
	if err != nil {
		return nil // CheckContents reports the broken record
	}
	return missingIn(known, data, server)
}

// mostRead limits how many backups CheckContents reads, the newest ones. Each takes a request.
const mostRead = 30

// CheckContents is like CheckDatabases, but it does not rely on the record in the data folder. The record is missing or
// old if the data folder is, e.g. after a disk snapshot was restored. CheckContents then reads the newer backups at
// backup.url until ctx ends, and says if it could not. known is as in Server.
func CheckContents(ctx context.Context, c Checked, known replica.Names, server []*engine.Database) []service.Finding {
	f := service.Finding{State: service.Warning, What: "backup contents", Fix: "make a backup, which writes " + RecordFile + " again"}
	recorded, broken := Known(c.Data)
	newer, err := readNewer(ctx, c, known, recorded)
	switch {
	case err != nil:
		f.Says = "it is not known which databases the newest backups contain: " + service.Reason(err)
		return []service.Finding{f}
	case broken != nil && len(newer) == 0:
		f.Says = broken.Error()
		return []service.Finding{f}
	}
	if len(newer) == 0 {
		return CheckDatabases(c.Data, server)
	}
	return missingIn(append(newer, recorded...), c.Data, server)
}

// readNewer returns the backups at backup.url that are newer than the recorded ones there, newest first. A target that
// cannot be listed is another finding.
func readNewer(ctx context.Context, c Checked, known replica.Names, recorded []service.Backup) (newer []service.Backup, err error) {
	if c.Settings.URL == "" {
		return nil, nil
	}
	target, closeIt, err := c.Clouds.Open(ctx, c.Settings.URL)
	if err != nil {
		return nil, nil // another finding
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	listed, err := replica.Inspect(ctx, target)
	if err != nil {
		return nil, nil // another finding
	}
	name, newest := location.Name(c.Settings.URL), int64(0)
	for _, b := range recorded {
		if b.Path == name && b.Has != nil {
			newest = max(newest, b.At.UnixMilli()) // names of points have milliseconds
		}
	}
	n := 0
	for _, p := range listed.Points {
		if p.Time.UnixMilli() > newest {
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	trust, err := location.Own(c.Data)
	if err != nil {
		return nil, err
	}
	points, err := replica.Points(ctx, target, known, trust, min(n, mostRead))
	if err != nil {
		return nil, fmt.Errorf("%s is older than the newest backup at %s, which cannot be read: %s", RecordFile, name, service.Reason(err))
	}
	for _, p := range points {
		newer = append(newer, service.Backup{Path: name, At: p.Time, Has: p.Contents()})
	}
	return newer, nil
}

// missingIn finds databases of the server that are in none of these backups.
func missingIn(known []service.Backup, data string, server []*engine.Database) (findings []service.Finding) {
	all, err := databasesIn(known, data, server)
	if err != nil {
		return []service.Finding{{State: service.Warning, What: "backup", Says: err.Error(), Fix: "move the file away; databases that were dismissed must be dismissed again"}}
	}
	for _, d := range all {
		if d.NeedsBackup() {
			findings = append(findings, d.finding())
		}
	}
	return findings
}

// finding reports a database without a new backup.
func (d *Database) finding() service.Finding {
	f := service.Finding{State: service.Warning, What: d.Name + " backup", Service: d.Name, Says: d.Where + " is in no backup", Fix: "run holdfast backup, or set backup.schedule"}
	if !d.IsElsewhere {
		return f
	}
	f.Says = "backups do not contain " + d.Where
	if d.Newest.IsZero() {
		f.Says += ", and no recorded backup has an older copy"
	} else {
		f.Says += ": the newest with an older copy is " + d.Path + " from " + service.FormatMoment(d.Newest)
	}
	f.Fix = "back it up with its server's own tools (docs/backup.md#postgresql); when you do, run: holdfast databases dismiss " + d.Name
	return f
}

// Dismiss lets retention delete all backups with a database, named as in Databases, that were made until now.
func (b *Server) Dismiss(name string) (d Database, err error) {
	all, err := b.Databases()
	if err != nil {
		return d, err
	}
	i := slices.IndexFunc(all, func(d Database) bool { return d.Name == name })
	if i < 0 {
		return d, errcode.New(errcode.NotFound, "neither the server nor a recorded backup has this database: see holdfast databases list")
	}
	if d = all[i]; d.Where != "" && !d.IsElsewhere {
		return d, errcode.Newf(errcode.Conflict, "%s is a database of this server that backups contain: only a database that was moved away, or that other tools back up, can be dismissed", d.Where)
	}
	until, err := Dismissed(b.Data)
	if err != nil {
		return d, err
	}
	d.Dismissed = b.Clock().UTC()
	until[d.File] = d.Dismissed
	text, err := json.Marshal(until)
	if err != nil {
		return d, err
	}
	return d, durable.File{Name: filepath.Join(b.Data, dismissedFile), Mode: 0o644}.Replace(durable.Bytes(text)) // see Record
}

// Missing returns the files of all that are not in has, sorted.
func Missing(has, all []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(file string) bool { return slices.Contains(has, file) })
	slices.Sort(all)
	return slices.Compact(all)
}

// contents returns the recorded backups at a URL whose content was recorded.
func contents(data, address string) (all []replica.PointContent, err error) {
	known, err := Known(data)
	for _, b := range known {
		if b.Path == location.Name(address) && b.Has != nil {
			all = append(all, replica.PointContent{Time: b.At, Has: b.Has})
		}
	}
	return all, err
}

// Lacking returns the databases that the newest recorded backup at a URL lacks, and an older one has. Retention keeps
// that older backup until the database is dismissed.
func Lacking(data, address string) (files map[string]time.Time, err error) {
	all, err := contents(data, address)
	if err != nil {
		return nil, err
	}
	dismissed, err := Dismissed(data)
	return replica.Lacking(all, dismissed), err
}

// Replaces returns which recorded backups at a URL are deleted after a backup that is made now, newest first.
func (b *Server) Replaces(s *Settings) (gone []replica.PointContent, err error) {
	rule, err := replica.ParseKeep(s.Keep)
	if err != nil {
		return nil, err
	}
	all, err := contents(b.Data, s.URL)
	if err != nil {
		return nil, err
	}
	dismissed, err := Dismissed(b.Data)
	if err != nil {
		return nil, err
	}
	gone = replica.Replaced(all, replica.PointContent{Time: b.Clock(), Has: b.has()}, rule, dismissed)
	slices.Reverse(gone)
	return gone, nil
}

// DescribeReplaced returns what a backup replaces, as a sentence.
func DescribeReplaced(gone []replica.PointContent) string {
	if len(gone) == 0 {
		return "By backup.keep, it replaces no backup."
	}
	var all []string
	for i, c := range gone {
		if i == 3 && len(gone) > 4 {
			all = append(all, fmt.Sprintf("and %d older ones", len(gone)-i))
			break
		}
		all = append(all, service.FormatMoment(c.Time))
	}
	return "By backup.keep, it replaces the backup of " + strings.Join(all, ", ") + "."
}
