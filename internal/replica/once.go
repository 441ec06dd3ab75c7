package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// maxSeries limits a backup series, because a restore reads all of its files.
const maxSeries = 500

// listTimeout limits listing and tidying a target, which may take many requests.
const listTimeout = 10 * time.Minute

// continueSeries continues the previous backup's series for databases whose stored chain matches the newest point.
// Later files, left by an interrupted backup, belong to no point.
func (r *Replica) continueSeries(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	points, err := listPoints(ctx, r.opts.Target)
	if err != nil {
		return err
	}
	var newest Point
	if len(points) > 0 {
		if newest, err = r.reader().point(ctx, points[len(points)-1].name); err != nil {
			r.opts.Log.Warn("the newest restore point cannot be read: the backup sends whole databases", "error", err)
		}
	}
	for _, s := range r.sources {
		if err := durable.MakeFolder(s.spool); err != nil {
			return err
		}
		former, last, err := s.saved()
		if err != nil {
			return err
		}
		if former.run == "" || newest.suffix() != r.keys.suffix() || newest.Files[s.name] != former.position() || last.since > max(last.size, s.least) || former.txid >= maxSeries {
			continue
		}
		whole, err := r.cutSeries(ctx, s.name, former)
		if err != nil {
			return err
		}
		if whole {
			s.chain, s.last = former, last
		}
	}
	return nil
}

// cutSeries deletes files after the chain's end, and reports whether no file before it is missing.
func (r *Replica) cutSeries(ctx context.Context, database string, c chain) (whole bool, err error) {
	names, err := r.opts.Target.List(ctx, filesPrefix(database, c.run))
	if err != nil {
		return false, err
	}
	series := filesOf(names)[seriesKey(database, c.run, r.keys.suffix())].single()
	for _, f := range series.sorted {
		if f.to > c.txid {
			if err := r.opts.Target.Delete(ctx, f.name); err != nil {
				return false, err
			}
		}
	}
	_, missing := series.cover(c.txid)
	return missing == nil, nil
}

// captureOnce keeps the stored chain valid until the next point.
func (s *source) captureOnce(ctx context.Context) error {
	if err := s.clear(chainName); err != nil {
		return err
	}
	if err := s.checkSpace(); err != nil {
		return err
	}
	asOf := s.clock()
	frozen, err := s.db.Freeze()
	if err != nil {
		return err
	}
	return errors.Join(s.comparePages(ctx, frozen, asOf, false), frozen.Close())
}

// closeOnce stores the chains if the backup was published. Otherwise the next backup continues from the chains stored
// before.
func (r *Replica) closeOnce() (err error) {
	for _, s := range r.sources {
		if r.newest().Number > 0 {
			err = errors.Join(err, s.save())
		}
		err = errors.Join(err, s.clear(chainName))
	}
	return err
}

// checkPoint fails unless this process owns the target, and the target contains every file for a new point.
func (r *Replica) checkPoint(ctx context.Context, p Point) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := checkHolder(ctx, r.opts.Target, r.mine); err != nil {
		return err
	}
	for database, position := range p.Files {
		names, err := r.opts.Target.List(ctx, filesPrefix(database, position.Run))
		if err != nil {
			return err
		}
		files, key := filesOf(names), seriesKey(database, position.Run, r.keys.suffix())
		files[key] = files[key].single()
		if _, err := files.leadingTo(database, position, r.keys.suffix()); err != nil {
			return err
		}
	}
	return nil
}

// single returns the files with one transaction. A backup sends no others, so somebody else added them.
func (o objects) single() objects { return o.which(func(f object) bool { return f.from == f.to }) }

// readBack compares an object with the sent data; sent is its SHA-256.
func readBack(ctx context.Context, t Target, name string, sent []byte) error {
	r, err := t.Get(ctx, name)
	if errcode.Is(err, errcode.NotFound) {
		return damagedError(name, "is missing, although it was sent", err)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, NewReader(ctx, r)); err != nil {
		return damagedError(name, "cannot be read back", err)
	}
	if !bytes.Equal(sum.Sum(nil), sent) {
		return damagedError(name, "differs from the sent data", nil)
	}
	return nil
}

// Published returns the newest restore point that this Replica published. Before the first, its number is 0. Its maps are
// shared: callers must not change them.
func (r *Replica) Published() Point { return r.newest() }

// Tidy deletes the restore points that the rule drops, and their objects. An empty rule keeps everything. It is for a
// Replica with Once, after Sync; Start tidies by itself.
func (r *Replica) Tidy(ctx context.Context) error {
	if r.opts.Rule == (Keep{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return r.tidy(ctx, r.opts.Clock())
}
