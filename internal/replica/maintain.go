package replica

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/superfly/ltx"
)

const (
	mergeEvery = 5 * time.Minute
	tidyEvery  = 15 * time.Minute

	// fine is the age up to which every restore point is kept. After that, one is kept per mergeEvery.
	fine = time.Hour
)

// maintain runs concurrently with ship, so that a large snapshot does not delay a restore point.
func (r *Replica) maintain(ctx context.Context) error {
	r.maintaining.Lock()
	defer r.maintaining.Unlock()
	published := r.newest()
	if published.Number == 0 {
		return nil
	}
	now := r.opts.Clock()
	var err error
	for _, s := range r.sources {
		err = errors.Join(err, r.sendSnapshot(ctx, s))
	}
	if err == nil && now.Sub(r.mergedAt) >= mergeEvery {
		for _, s := range r.sources {
			err = errors.Join(err, r.merge(ctx, s, published.Files[s.name]))
		}
		if err == nil {
			r.mergedAt = now
		}
	}
	if err == nil && now.Sub(r.tidiedAt) >= tidyEvery {
		if err = r.tidy(ctx, now); err == nil {
			r.tidiedAt = now
		}
	}
	return err
}

func (r *Replica) sendSnapshot(ctx context.Context, s *source) error {
	f, waits := s.snapshotWaiting()
	if !waits {
		return nil
	}
	content, err := os.Open(f.path(s.spool))
	if err != nil {
		return ignoreDropped(err)
	}
	defer content.Close()
	if err := r.opts.Fault("send snapshot"); err != nil {
		return err
	}
	if err := r.put(ctx, f.objectName(s.name)+r.keys.suffix(), r.keys, content, f.size); err != nil {
		return err
	}
	s.snapshotShipped(f)
	if err := r.opts.Fault("sent snapshot"); err != nil {
		return err
	}
	return r.sentRange(s.name, f.run, rangeName(f.from, f.to))
}

func ignoreDropped(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (r *Replica) merge(ctx context.Context, s *source, position Position) error {
	files, merged := s.mergeable(position)
	if len(files) < 2 {
		return nil
	}
	merged, err := s.write(merged, func(w io.Writer) error { return compact(ctx, s.spool, files, w) })
	if err != nil {
		return ignoreDropped(err)
	}
	defer func() { _ = os.Remove(merged.path(s.spool)) }()
	content, err := os.Open(merged.path(s.spool))
	if err != nil {
		return ignoreDropped(err)
	}
	defer content.Close()
	if err := r.put(ctx, merged.objectName(s.name)+r.keys.suffix(), r.keys, content, merged.size); err != nil {
		return err
	}
	s.merged(files)
	if err := r.opts.Fault("merged"); err != nil {
		return err
	}
	return r.sentRange(s.name, merged.run, rangeName(merged.from, merged.to))
}

func compact(ctx context.Context, spool string, files []ltxFile, w io.Writer) error {
	var readers []io.Reader
	for _, f := range files {
		file, err := os.Open(f.path(spool))
		if err != nil {
			return err
		}
		defer file.Close()
		readers = append(readers, bufio.NewReaderSize(file, 16<<10))
	}
	c, err := ltx.NewCompactor(w, readers)
	if err != nil {
		return err
	}
	return c.Compact(ctx)
}

func (r *Replica) tidy(ctx context.Context, at time.Time) error {
	if err := checkHolder(ctx, r.opts.Target, r.mine); err != nil {
		return err
	}
	now, newest := r.current(), r.newest()
	names, err := listWithoutBodies(ctx, r.opts.Target)
	if err != nil {
		return err
	}
	if !now.equals(r.current()) {
		return nil // a listed object may belong to the new run, so it is deleted next time
	}
	files := filesOf(names)
	if r.replaceLost(newest, files) {
		return nil
	}
	points, err := r.readPoints(ctx, names)
	if err != nil {
		return err
	}
	if err := checkNewest(points, newest); err != nil {
		r.notice(err)
		return err
	}
	rule, err := r.retention(at)
	if err != nil {
		return err
	}
	own, err := r.ownFiles(files)
	if err != nil {
		return err
	}
	for _, name := range unneeded(names, points, listed{files, own}, now, rule) {
		if err := r.opts.Fault("delete"); err != nil {
			return err
		}
		if err := r.opts.Target.Delete(ctx, name); err != nil {
			return err
		}
		delete(r.points, name)
	}
	return r.rememberLacking(rule.dismissed)
}

// replaceLost starts a new series for each database for which objects of the newest point were deleted.
func (r *Replica) replaceLost(newest Point, files series) (lost bool) {
	for _, s := range r.sources {
		position := newest.Files[s.name]
		if _, err := files.leadingTo(s.name, position, newest.suffix()); err != nil {
			lost = true
			r.opts.Log.Error("the replica has lost an object, so the whole database is sent again", "database", s.name, "error", err)
			s.replace(position.Run)
		}
	}
	return lost
}

func (r *Replica) current() current {
	now := current{suffix: r.keys.suffix(), runs: map[string]string{}, also: r.currentAlso(), proposed: r.proposedPoint()}
	for _, s := range r.sources {
		state, _ := s.pending()
		now.runs[s.name] = state.Run
	}
	return now
}

// reader returns a reader for points that this server signed. Call it after claim.
func (r *Replica) reader() reader { return reader{r.opts.Target, r.opts.Known, r.mine} }

func (r *Replica) readPoints(ctx context.Context, names []string) (map[string]Point, error) {
	points := map[string]Point{}
	for _, name := range names {
		if _, ok := parsePointName(name); !ok || !strings.HasPrefix(name, pointsPrefix) {
			continue
		}
		p, known := r.points[name]
		if !known {
			var err error
			if p, err = r.reader().point(ctx, name); err != nil {
				return nil, err
			}
		}
		points[name] = p
	}
	r.points = points
	return points, nil
}

// retention always keeps points in the future, which come from a wrong clock.
type retention struct {
	now   time.Time
	keep  time.Duration
	fine  time.Duration
	every time.Duration
	rule  Keep

	// dismissed are files of which points until a time need not be kept.
	dismissed map[string]time.Time
}

func (r *Replica) retention(now time.Time) (rule retention, err error) {
	rule = retention{now: now, rule: r.opts.Rule}
	if !r.opts.Once {
		rule.keep, rule.fine, rule.every = r.opts.Keep, fine, mergeEvery
	}
	if r.opts.Dismissed != nil {
		rule.dismissed, err = r.opts.Dismissed()
	}
	return rule, err
}

// current lists objects that may be newer than the newest point.
type current struct {
	suffix string            // of new objects
	runs   map[string]string // without suffix, by database
	also   map[string]bool

	proposed Point // may be published at any time; zero if there is no proposal
}

func (c current) equals(o current) bool {
	return maps.Equal(c.runs, o.runs) && maps.Equal(c.also, o.also)
}

// unneeded returns the objects to delete, points first, so that remaining points can be restored at any time. The
// newest point is always kept.
func unneeded(names []string, points map[string]Point, files listed, now current, rule retention) (remove []string) {
	kept, newest := rule.choose(points, files)
	for _, name := range names {
		if _, isPoint := points[name]; isPoint && !kept[name] {
			remove = append(remove, name)
		}
	}
	needed := map[string]bool{}
	keep := []Point{now.proposed}
	for name := range kept {
		keep = append(keep, points[name])
	}
	for _, p := range keep {
		for _, object := range p.Also {
			needed[object] = true
		}
		for database, position := range p.Files {
			leading, _ := files.leadingTo(database, position, p.suffix())
			for _, f := range leading {
				needed[f.name] = true
			}
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, alsoPrefix) && !needed[name] && !now.also[name] {
			remove = append(remove, name)
		}
	}
	for key, all := range files.all {
		database, run, _ := strings.Cut(key, "/")
		for _, f := range all.sorted {
			last := points[newest]
			position := last.Files[database]
			isNew := now.runs[database]+now.suffix == run && (position.Run+last.suffix() != run || f.to > position.TXID)
			if !needed[f.name] && !isNew {
				remove = append(remove, f.name)
			}
		}
	}
	return remove
}

// choose keeps points for each file that they contain, as if there were no other files: a point without a database never
// displaces a point that has it. The newest point with each file stays, and its newest point that can be restored.
func (rule retention) choose(points map[string]Point, files listed) (kept map[string]bool, newest string) {
	kept = map[string]bool{}
	old := map[string][]candidate{}
	for name, p := range points {
		if newest == "" || p.Number > points[newest].Number {
			newest = name
		}
		age := rule.now.Sub(p.Time)
		isRecent := rule.fine > 0 && age <= rule.fine
		if isRecent || age < 0 {
			kept[name] = true
		}
		if age < 0 || isRecent && rule.rule == (Keep{}) {
			continue
		}
		for _, file := range p.Contents() {
			if !rule.isDismissed(file, p) {
				old[file] = append(old[file], candidateOf(name, p, file, files))
			}
		}
	}
	for _, with := range old {
		for _, name := range append(rule.spread(with), rule.rule.choose(with)...) {
			kept[name] = true
		}
	}
	for file, name := range rule.newestWith(points, nil) {
		kept[name] = true
		if position, isDatabase := points[name].Files[file]; isDatabase {
			if _, err := files.leadingTo(file, position, points[name].suffix()); err != nil {
				kept[rule.newestWith(points, &files)[file]] = true
			}
		}
	}
	if newest != "" {
		kept[newest] = true
	}
	return kept, newest
}

// spread returns one point per rule.every of those younger than rule.keep.
func (rule retention) spread(all []candidate) (names []string) {
	slots := map[int64]candidate{}
	for _, c := range all {
		age := rule.now.Sub(c.at)
		// A point at which files were merged needs the fewest files to restore.
		slot := c.at.Unix() / max(1, int64(rule.every/time.Second))
		if best, known := slots[slot]; age > rule.fine && age < rule.keep && c.whole &&
			(!known || c.files < best.files || c.files == best.files && c.name > best.name) {
			slots[slot] = c
		}
	}
	for _, best := range slots {
		names = append(names, best.name)
	}
	return names
}

// newestWith returns the newest point with each file that is not dismissed. If whole is set, it returns the newest
// points for which no object of the file is missing.
func (rule retention) newestWith(points map[string]Point, whole *listed) (names map[string]string) {
	names = map[string]string{}
	for name, p := range points {
		for _, file := range p.Contents() {
			if best, known := names[file]; rule.isDismissed(file, p) || known && p.Number < points[best].Number {
				continue
			}
			if position, isDatabase := p.Files[file]; whole != nil && isDatabase {
				if _, err := whole.leadingTo(file, position, p.suffix()); err != nil {
					continue
				}
			}
			names[file] = name
		}
	}
	return names
}

func (rule retention) isDismissed(file string, p Point) bool {
	until, is := rule.dismissed[file]
	return is && !p.Time.After(until)
}

// candidateOf counts only the objects of one of the point's files, so that the choice does not depend on other files.
func candidateOf(name string, p Point, file string, files listed) candidate {
	c := candidate{name: name, number: p.Number, at: p.Time, whole: true}
	if position, isDatabase := p.Files[file]; isDatabase {
		leading, err := files.leadingTo(file, position, p.suffix())
		c.files, c.whole = len(leading), err == nil
	}
	return c
}

type object struct {
	name     string
	from, to ltx.TXID

	// steps is the least number of objects from the beginning to this one's end, including this one; 0 if there is no way.
	// previous is the index of the object before it. link sets both.
	steps, previous int
}

// objects are the LTX files in a series. link makes them.
type objects struct {
	sorted []object         // by first and last transaction
	last   map[ltx.TXID]int // index of the last object on the shortest way to a number
}

// link finds the shortest way to each object. The largest object is not always a step of a way: somebody else may have
// added it, and then it may lead nowhere.
func link(unlinked []object) objects {
	all, last := slices.Clone(unlinked), map[ltx.TXID]int{}
	slices.SortFunc(all, func(a, b object) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for i := range all {
		o := &all[i]
		o.steps, o.previous = 0, -1
		if before, ok := last[o.from-1]; ok {
			o.steps, o.previous = all[before].steps+1, before
		} else if o.from == 1 {
			o.steps = 1
		}
		if best, ok := last[o.to]; o.steps > 0 && (!ok || o.steps < all[best].steps) {
			last[o.to] = i
		}
	}
	return objects{all, last}
}

// series are the LTX files by seriesKey. Plain and encrypted files never belong to the same series, because the plain
// files could be replacements.
type series map[string]objects

func seriesKey(database, run, suffix string) string { return database + "/" + run + suffix }

// listWithoutBodies skips the bodies, of which there may be millions.
func listWithoutBodies(ctx context.Context, t Target) (names []string, err error) {
	for _, prefix := range []string{alsoPrefix, filesAll, pointsPrefix} {
		some, err := t.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	return names, nil
}

func filesOf(names []string) series {
	all := map[string][]object{}
	for _, name := range names {
		parts := strings.Split(name, "/")
		if len(parts) != 4 || parts[0]+"/" != filesAll || !databasePattern.MatchString(parts[1]) || !runPattern.MatchString(parts[2]) {
			continue
		}
		file := strings.TrimSuffix(parts[3], encrypted)
		if from, to, err := ltx.ParseFilename(file); err == nil && 0 < from && from <= to && file == rangeName(from, to)+".ltx" {
			key := seriesKey(parts[1], parts[2], strings.TrimPrefix(parts[3], file))
			all[key] = append(all[key], object{name: name, from: from, to: to})
		}
	}
	linked := make(series, len(all))
	for key, of := range all {
		linked[key] = link(of)
	}
	return linked
}

// leadingTo returns the fewest objects with a suffix that lead to a position. If an object is missing, the error contains its name.
func (s series) leadingTo(database string, position Position, suffix string) ([]object, error) {
	chosen, err := s[seriesKey(database, position.Run, suffix)].cover(position.TXID)
	if missing, ok := errors.AsType[missingError](err); ok {
		return nil, damagedError(filesPrefix(database, position.Run)+rangeName(missing.txid, missing.txid)+".ltx"+suffix, "is missing", nil)
	}
	return chosen, err
}

// which returns the objects for which a function returns true, with the ways among them.
func (o objects) which(is func(object) bool) objects {
	return link(slices.DeleteFunc(slices.Clone(o.sorted), func(f object) bool { return !is(f) }))
}

// cover returns the fewest objects that lead to a number, starting with all pages. If an object is missing, the error
// contains its number.
func (o objects) cover(to ltx.TXID) (chosen []object, err error) {
	if to == 0 {
		return nil, nil
	}
	at, ok := o.last[to]
	if !ok {
		reached := ltx.TXID(0)
		for number := range o.last {
			if number < to {
				reached = max(reached, number)
			}
		}
		return nil, missingError{reached + 1}
	}
	for ; at >= 0; at = o.sorted[at].previous {
		chosen = append(chosen, o.sorted[at])
	}
	slices.Reverse(chosen)
	return chosen, nil
}

type missingError struct{ txid ltx.TXID }

func (e missingError) Error() string { return "no file begins with " + e.txid.String() }
