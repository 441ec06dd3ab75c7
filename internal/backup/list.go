package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// Listed is a backup at a URL.
type Listed struct {
	At  time.Time
	Has []string // names of its databases and other files
}

// List returns the latest backups at a URL, or restore points of a replica, the newest first; all of them if most is 0.
func List(ctx context.Context, address string, most int) (all []Listed, err error) {
	target, closeIt, err := location.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	points, err := replica.Points(ctx, target, most)
	if errcode.Is(err, errcode.NotFound) {
		return nil, errcode.New(errcode.NotFound, location.Name(address)+" has no backup: check the folder, or the bucket and its prefix")
	}
	for _, p := range points {
		all = append(all, Listed{p.Time, slices.Concat(slices.Sorted(maps.Keys(p.Files)), slices.Sorted(maps.Keys(p.Also)))})
	}
	return all, err
}

// Check inspects the backups at backup.url, and changes nothing.
func Check(ctx context.Context, s *Settings, data string, now time.Time) []service.Finding {
	if s.URL == "" {
		return nil
	}
	name := location.Name(s.URL)
	f := service.Finding{State: service.Warning, What: "backup", Fix: "see whether " + name + " can be reached and written; backup.url names it"}
	if failed := ReadFailure(data); failed != nil && failed.URL == name {
		if f.Says = failed.Text(); strings.Contains(f.Says, replica.OtherServerFix) {
			f.Fix = replica.OtherServerFix
		}
		return []service.Finding{f}
	}
	target, closeIt, err := location.Open(ctx, s.URL)
	if err != nil {
		f.Says = service.Reason(err)
		return []service.Finding{f}
	}
	defer func() { _ = closeIt() }()
	content, err := replica.Inspect(ctx, target)
	var newest time.Time
	for _, p := range content.Points {
		newest = p.Time
	}
	own, idErr := location.KnownServerID(data)
	switch {
	case errcode.Is(err, errcode.NotFound) || err == nil && len(content.Points) == 0:
		f.Says, f.Fix = name+" has no backup", "run holdfast backup, or set backup.schedule"
	case err != nil:
		f.Says = name + ": " + err.Error()
	case idErr != nil:
		f.Says, f.Fix = service.Reason(idErr), "make the data folder readable"
	case content.Server != own:
		f.State, f.Says, f.Fix = service.Wrong, name+" has the backups of another server", replica.OtherServerFix
	case s.Late(data, now):
		f.Says, f.Fix = "by backup.schedule, the next backup is late: the newest is of "+service.FormatMoment(newest), "see the log of the server"
	default:
		says := fmt.Sprintf("%s has %s, the newest of %s", name, service.Count(int64(len(content.Points)), "backup"), service.FormatMoment(newest))
		return []service.Finding{{State: service.OK, What: "backup", Says: says}}
	}
	return []service.Finding{f}
}

// Text describes the failure.
func (f *Failure) Text() string {
	return "the latest backup to " + f.URL + " failed at " + service.FormatMoment(f.At) + ": " + f.Says
}
