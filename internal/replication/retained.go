package replication

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/db/engine"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// Retained returns a data folder's recorded backups and replica, each with the time by which it no longer contains
// data deleted at that moment. Backups in a folder, at another URL, or without a rule are never deleted, nor are the
// newest copies of databases that were moved away. If moved is not empty, the data was in these databases, which are on
// database servers now: only places with older copies are returned.
func Retained(data string, b *backup.Settings, r *Settings, at time.Time, moved ...string) (all service.Copies, err error) {
	known, err := backup.Known(data)
	if err != nil {
		return nil, err
	}
	if len(moved) > 0 {
		known = slices.DeleteFunc(known, func(k service.Backup) bool { return k.Has != nil && !containsAny(k.Has, moved) })
	}
	seen := map[string]bool{}
	for i, k := range known {
		if !location.IsURL(k.Path) {
			all = append(all, service.Retained{Kind: service.InBackup, Where: k.Path, At: k.At})
			continue
		}
		if seen[k.Path] {
			continue
		}
		seen[k.Path] = true
		there := service.Retained{Kind: service.InBackup, Where: k.Path}
		if b.URL != "" && k.Path == location.Name(b.URL) {
			if there.Until, err = until(b.Keep, at, 0, pause(known[i:])); err != nil {
				return nil, err
			}
			lacking, err := backup.Lacking(data, b.URL)
			if err != nil {
				return nil, err
			}
			hold(&there, lacking)
		}
		all = append(all, there)
	}
	if r.URL == "" {
		return all, nil
	}
	lacking, err := replica.ReadLacking(filepath.Join(data, spoolFolder))
	if err != nil {
		return nil, err
	}
	files := slices.Collect(maps.Keys(lacking))
	if len(moved) > 0 && !containsAny(files, moved) {
		return all, nil
	}
	last, err := until(r.Keep, at, r.Retention, 0)
	there := service.Retained{Kind: service.InReplica, Where: location.Name(r.URL), Until: last}
	hold(&there, lacking)
	return append(all, there), err
}

// hold notes that points with these files stay until an operator dismisses the files.
func hold(there *service.Retained, lacking map[string]time.Time) {
	if len(lacking) == 0 {
		return
	}
	var names []string
	for file := range lacking {
		name, _ := engine.ServiceOf(file)
		names = append(names, cmp.Or(name, file))
	}
	slices.Sort(names)
	there.Held, there.Until = strings.Join(names, ", "), time.Time{}
}

// containsAny reports whether has contains a listed file.
func containsAny(has, files []string) bool {
	return slices.ContainsFunc(files, func(file string) bool { return slices.Contains(has, file) })
}

// pause returns the time between the latest two backups to the same place, at least a day.
func pause(newestFirst []service.Backup) time.Duration {
	const usual = 24 * time.Hour
	for _, b := range newestFirst[1:] {
		if b.Path == newestFirst[0].Path {
			return max(usual, newestFirst[0].At.Sub(b.At))
		}
	}
	return usual
}

// until uses least as the minimum age of dropped points and every as their interval. It returns zero without a rule.
func until(keep string, at time.Time, least, every time.Duration) (time.Time, error) {
	rule, err := replica.ParseKeep(keep)
	if err != nil || rule == (replica.Keep{}) && least == 0 {
		return time.Time{}, err
	}
	end := rule.Until(at, every)
	if longest := (replica.Keep{}).Until(at.Add(least), every); longest.After(end) {
		end = longest
	}
	return end.UTC().Truncate(time.Second), nil
}
