package replica

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// PointContent is a point's time and the files in it.
type PointContent struct {
	Time time.Time
	Has  []string
}

// Replaced returns which of the points before, in any order, a rule deletes after the point next was published, oldest
// first. The zero rule deletes none.
func Replaced(before []PointContent, next PointContent, rule Keep, dismissed map[string]time.Time) (gone []PointContent) {
	if rule == (Keep{}) {
		return nil
	}
	before = slices.SortedFunc(slices.Values(before), func(a, b PointContent) int { return a.Time.Compare(b.Time) })
	points, names := map[string]Point{}, []string{}
	for i, c := range append(before, next) {
		p := Point{Number: uint64(i) + 1, Time: c.Time, Files: map[string]Position{}}
		for _, file := range c.Has {
			p.Files[file] = Position{}
		}
		names = append(names, strconv.Itoa(i))
		points[names[i]] = p
	}
	kept, _ := retention{now: next.Time, rule: rule, dismissed: dismissed}.choose(points, listed{})
	for i, c := range before {
		if !kept[names[i]] {
			gone = append(gone, c)
		}
	}
	return gone
}

// Lacking returns the files that the newest point lacks, each with the time of the newest point that has it, except files
// that were dismissed at or after that time (Options.Dismissed). all may be in any order.
func Lacking(all []PointContent, dismissed map[string]time.Time) (files map[string]time.Time) {
	files = map[string]time.Time{}
	var newest PointContent
	for _, c := range all {
		if c.Time.After(newest.Time) {
			newest = c
		}
	}
	for _, c := range all {
		for _, file := range c.Has {
			if until, is := dismissed[file]; !slices.Contains(newest.Has, file) && (!is || c.Time.After(until)) && c.Time.After(files[file]) {
				files[file] = c.Time
			}
		}
	}
	return files
}

// rememberLacking stores the result of Lacking for the points that were kept, for deletions of data, which say how long
// the replica still has it.
func (r *Replica) rememberLacking(dismissed map[string]time.Time) error {
	if r.opts.Spool == "" {
		return nil
	}
	var all []PointContent
	for _, p := range r.points {
		all = append(all, PointContent{p.Time, p.Contents()})
	}
	lacking := Lacking(all, dismissed)
	if before, err := ReadLacking(r.opts.Spool); err == nil && maps.EqualFunc(before, lacking, time.Time.Equal) {
		return nil
	}
	return writeNote(r.opts.Spool, lackingNote, lacking)
}

// ReadLacking returns the files of which the replica with this spool keeps older points only, as of its last
// maintenance.
func ReadLacking(spool string) (files map[string]time.Time, err error) {
	err = readNote(spool, lackingNote, &files)
	return files, err
}
