package replica

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Replica copies databases to a target. Close it before the databases. Published and Status may be called at any time;
// the other methods one at a time, although Start's background work goes on meanwhile.
type Replica struct {
	opts    Options
	sources []*source
	keys    keys

	stop    context.CancelFunc
	running sync.WaitGroup

	capturing          sync.Mutex // held while databases are captured
	shipping           sync.Mutex // held while files are sent; guards the fields up to rememberedAt
	claimed            bool
	heldAt             time.Time  // when the marker was last checked
	mine               marker     // this process's marker
	number             uint64     // of the last point
	rememberedAt       time.Time  // see remember
	maintaining        sync.Mutex // held while maintain runs; guards the times and points
	mergedAt, tidiedAt time.Time
	points             map[string]Point // verified points by object
	bodies             *bodies
	sent               atomic.Int64 // bytes
	isWatching         bool         // Start was called

	mergesMu sync.Mutex
	merges   merges // nil before the record is read

	mu        sync.Mutex
	status    Status
	published Point     // newest point of this process
	proposed  *proposal // complete except for bodies; nil: none
	rounds    uint64    // number of captures begun
	also      map[string]alsoState
}

// Status is the replica's state, for metrics, alerts and the console.
type Status struct {
	// Since is the time before which all acknowledged writes are in the last restore point; zero before the first
	// point.
	Since                   time.Time
	WaitingBytes            int64 // in the spool
	CaptureError, ShipError error // of the last capture; nil: succeeded. ShipError likewise of the last attempt to send
	// Noticed is a sign that somebody else changed the target since the last run: points are missing or forged. It stays
	// until the process ends.
	Noticed error
	Bodies  BodyStatus // zero without bodies
}

// Lag returns how many of the latest writes a disaster would lose, as time.
func (s Status) Lag(now time.Time) time.Duration { return max(0, now.Sub(s.Since)) }

// New returns an idle replica; see Start and Sync.
func New(opts Options) *Replica {
	if opts.SpoolBytes <= 0 {
		opts.SpoolBytes = 256 << 20
	}
	if opts.Interval <= 0 {
		opts.Interval = time.Second
	}
	if opts.Keep <= 0 {
		opts.Keep = 7 * 24 * time.Hour
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.space == nil {
		opts.space = durable.Space
	}
	if opts.Fault == nil {
		opts.Fault = func(string) error { return nil }
	}
	r := &Replica{
		opts: opts, keys: keys{recipients: opts.Recipients, signing: opts.Key}, stop: func() {},
		mine: marker{Format: format, Server: opts.Server, Holder: rand.Text()}, also: map[string]alsoState{},
	}
	r.bodies = newBodies(r)
	if opts.Once {
		r.mine.Kind, r.opts.SpoolBytes = backupKind, math.MaxInt64
	}
	r.opts.Known = Names{
		Databases: slices.AppendSeq(slices.Clone(opts.Known.Databases), maps.Keys(opts.Files)),
		Also:      slices.AppendSeq(slices.Clone(opts.Known.Also), maps.Keys(opts.Also)),
	}
	order := slices.Clone(opts.Order)
	for _, name := range slices.Sorted(maps.Keys(opts.Files)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		r.sources = append(r.sources, &source{
			name: name, db: opts.Files[name], spool: filepath.Join(opts.Spool, name), limit: r.opts.SpoolBytes, frames: sqlitedb.CheckpointPages, least: snapshotLeast,
			clock: opts.Clock, fault: opts.Fault, space: opts.space, once: opts.Once, written: r.bodies.lastNumber,
		})
	}
	return r
}

// Start captures, ships and maintains in the background until Close. Call it at most once, and not after Close: a second
// Start would keep Close waiting for ever. Sync works with and without it.
func (r *Replica) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.isWatching = true
	r.bodies.start(ctx)
	captured := make(chan struct{}, 1)
	r.running.Go(func() {
		r.repeat(ctx, nil, func(ctx context.Context) error {
			err := r.capture(ctx)
			select {
			case captured <- struct{}{}:
			default: // earlier captures are still being shipped
			}
			return err
		})
	})
	r.running.Go(func() { r.repeat(ctx, captured, r.ship) })
	r.running.Go(func() { r.repeat(ctx, nil, r.maintain) })
}

// repeat calls fn in each interval or when ready fires, and less often while it fails.
func (r *Replica) repeat(ctx context.Context, ready <-chan struct{}, fn func(context.Context) error) {
	failures := 0
	for {
		if ready != nil {
			select {
			case <-ready:
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		if err := fn(ctx); err != nil {
			failures++
			if ctx.Err() == nil {
				r.opts.Log.Warn("replica is late", "error", err)
			}
		} else {
			failures = 0
		}
		if ready != nil && failures == 0 {
			continue
		}
		wait := r.opts.Interval<<min(failures, 5) - time.Since(began)
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

// Sync captures, ships and publishes the writes until now; see Published. If nothing changed, there is no new point. With an
// error, parts may be in the target, and the next Sync continues. Without Start, services must not delete bodies while it
// runs.
func (r *Replica) Sync(ctx context.Context) error {
	if r.opts.Once {
		if err := r.continueSeries(ctx); err != nil {
			return err
		}
	}
	err := r.capture(ctx)
	if !r.isWatching {
		r.bodies.oweAll()
	}
	return errors.Join(err, r.shipAfter(ctx, func(ctx context.Context, number uint64) (bool, error) {
		done, err := r.bodies.upload(ctx, number)
		if err == nil && !done {
			err = errcode.New(errcode.Unavailable, "files of the restore point are not in the target")
		}
		return done, err
	}))
}

// CloseBodies uploads the queued bodies until ctx is done, and then reads no more bodies.
func (r *Replica) CloseBodies(ctx context.Context) error { return r.bodies.close(ctx) }

// Close captures and ships the remaining writes until ctx is done, and stops. Call it once, also without Start, and
// before the databases are closed. Afterwards only Published and Status may be called. With an error, the target may lack
// the last writes; the next Replica with the same spool sends them.
func (r *Replica) Close(ctx context.Context) error {
	r.stop()
	r.running.Wait()
	r.bodies.running.Wait()
	if r.opts.Once {
		return errors.Join(r.bodies.finish(ctx, r.newest().Number), r.closeOnce())
	}
	err := r.Sync(ctx)
	r.capturing.Lock()
	defer r.capturing.Unlock()
	if newest := r.newest(); newest.Number > 0 && r.opts.Spool != "" {
		err = errors.Join(err, r.remember(newest))
	}
	if err == nil {
		err = r.bodies.finish(ctx, r.number)
	}
	for _, s := range r.sources {
		err = errors.Join(err, s.save(), s.stop())
	}
	return err
}

// newest returns the newest point that this process published, or a zero one.
func (r *Replica) newest() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published
}

// capture captures all databases. One that fails does not stop the others.
func (r *Replica) capture(ctx context.Context) (err error) {
	r.capturing.Lock()
	defer r.capturing.Unlock()
	round := r.beginRound()
	for _, s := range r.sources {
		s.round = round
		if failed := s.capture(ctx); failed != nil {
			err = errors.Join(err, errcode.Wrap(errcode.Unavailable, "cannot capture "+s.name, failed))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.CaptureError = err
	return err
}

// beginRound numbers a capture.
func (r *Replica) beginRound() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	return r.rounds
}

// begunRounds returns the number of the latest capture. Later captures see everything that the database shows now.
func (r *Replica) begunRounds() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rounds
}

// Status returns the state now. It does not wait for the target. The caller must not change the slices.
func (r *Replica) Status() Status {
	bodies := r.bodies.state()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Bodies = bodies
	for _, source := range r.sources {
		_, files := source.pending()
		for _, f := range files {
			s.WaitingBytes += f.size
		}
	}
	return s
}

// ship waits only briefly for missing bodies, because later captures must not wait for a large body.
func (r *Replica) ship(ctx context.Context) error { return r.shipAfter(ctx, r.bodies.wait) }

// shipAfter calls wait for all bodies up to a number. wait returns false if a body is missing.
func (r *Replica) shipAfter(ctx context.Context, wait func(context.Context, uint64) (bool, error)) error {
	r.shipping.Lock()
	defer r.shipping.Unlock()
	since, err := r.send(ctx, wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ShipError = err
	if err == nil && !since.IsZero() {
		r.status.Since = since
	}
	return err
}

// proposal is a point whose files are in the target, but perhaps not all bodies.
type proposal struct {
	Point
	bodies uint64 // it needs bodies up to this number
	round  uint64 // oldest capture in it
}

// send returns since: all writes acknowledged before it are in the target. It is zero if the time is unknown.
func (r *Replica) send(ctx context.Context, wait func(context.Context, uint64) (bool, error)) (since time.Time, err error) {
	err = r.prepare(ctx)
	r.bodies.open(err == nil)
	if err != nil {
		return since, err
	}
	p, complete, err := r.sendFiles(ctx)
	if err != nil || !complete {
		return since, err
	}
	if p.Also, err = r.sendAlso(ctx); err != nil {
		return since, err
	}
	if last := r.newest(); maps.Equal(p.Files, last.Files) && maps.Equal(p.Also, last.Also) {
		r.propose(nil)
		r.bodies.published(last.Number, p.round)
		return p.Time, nil
	}
	p = r.propose(p)
	if done, err := wait(ctx, p.bodies); err != nil || !done {
		return since, err
	}
	if err := r.publish(ctx, p.Point); err != nil {
		return since, err
	}
	r.propose(nil)
	r.bodies.published(r.number, p.round)
	return p.Time, nil
}

// sendFiles returns complete = false if a database was never captured.
func (r *Replica) sendFiles(ctx context.Context) (p *proposal, complete bool, err error) {
	p, complete = &proposal{Point: Point{Files: map[string]Position{}}}, true
	for i, s := range r.sources {
		if err := r.confirm(ctx, s); err != nil {
			return nil, false, err
		}
		state, files := s.pending()
		complete = complete && state.Run != ""
		for _, f := range files {
			if err := r.sendFile(ctx, s, f); err != nil {
				return nil, false, err
			}
		}
		p.Files[s.name] = state.Position
		if p.Time.IsZero() || state.asOf.Before(p.Time) {
			p.Time = state.asOf
		}
		p.bodies = max(p.bodies, state.bodies)
		if i == 0 || state.round < p.round {
			p.round = state.round
		}
	}
	return p, complete, nil
}

// proposedPoint returns the proposal, whose objects must not be deleted.
func (r *Replica) proposedPoint() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proposed == nil {
		return Point{}
	}
	return r.proposed.Point
}

// propose keeps the previous proposal if bodies of p are missing. If p is nil, there is no proposal.
func (r *Replica) propose(p *proposal) *proposal {
	keep := p != nil && !r.bodies.isReady(p.bodies)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proposed == nil || !keep {
		r.proposed = p
	}
	return r.proposed
}

// checkEvery is how often the marker is checked: another process may have taken the target.
const checkEvery = time.Minute

// prepare claims the target, or checks now and then that it is still ours.
func (r *Replica) prepare(ctx context.Context) error {
	away := false
	for _, s := range r.sources {
		away = away || s.isAway()
	}
	now := r.opts.Clock()
	if r.claimed && !away && now.Sub(r.heldAt) < checkEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	check := r.claim
	if r.claimed {
		check = func(ctx context.Context) error { return checkHolder(ctx, r.opts.Target, r.mine) }
	}
	if err := check(ctx); err != nil {
		return err
	}
	r.heldAt = now
	for _, s := range r.sources {
		s.reachable()
	}
	return nil
}

// claim claims the target and finds the number for the next point.
func (r *Replica) claim(ctx context.Context) error {
	if err := CheckLost(ctx, r.opts.Target, r.opts.Spool, r.opts.Location); err != nil {
		return err
	}
	mine, err := claim(ctx, r.opts.Target, r.mine, r.opts.Key)
	if err != nil {
		return err
	}
	r.mine, r.keys.repository, r.keys.signer = mine, mine.Repository, mine.Key
	if err := r.noteLocation(); err != nil {
		return err
	}
	points, err := listPoints(ctx, r.opts.Target)
	if err != nil {
		return err
	}
	if err := r.findNumber(ctx, points); err != nil {
		return err
	}
	r.claimed = true
	return nil
}

// sendFile sends a file from the spool.
func (r *Replica) sendFile(ctx context.Context, s *source, f ltxFile) error {
	content, err := os.Open(f.path(s.spool))
	if errors.Is(err, os.ErrNotExist) {
		return errcode.New(errcode.Unavailable, s.name+": the files in the spool were dropped, because the target is too slow")
	}
	if err != nil {
		return err
	}
	defer content.Close()
	if err := r.opts.Fault("send"); err != nil {
		return err
	}
	if err := r.put(ctx, f.objectName(s.name)+r.keys.suffix(), r.keys, content, f.size); err != nil {
		return err
	}
	if err := r.opts.Fault("sent"); err != nil {
		return err
	}
	s.shipped(f)
	return nil
}

// put uses a timeout that depends on the size. In a backup, it reads the object back to verify it.
func (r *Replica) put(ctx context.Context, name string, k keys, content io.Reader, size int64) error {
	if r.opts.Once {
		size *= 2
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout+time.Duration(size/100_000)*time.Second)
	defer cancel()
	sealed := k.seal(name, content)
	defer sealed.Close()
	if !r.opts.Once {
		return r.opts.Target.Put(ctx, name, sealed)
	}
	sum := sha256.New()
	sent := &counter{Reader: io.TeeReader(sealed, sum)}
	if err := r.opts.Target.Put(ctx, name, sent); err != nil {
		return err
	}
	r.sent.Add(sent.n)
	return readBack(ctx, r.opts.Target, name, sum.Sum(nil))
}

// counter counts the bytes read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// size describes a backup.
func (r *Replica) size(p Point) *BackupSize {
	b := &BackupSize{Sent: r.sent.Load(), Took: max(0, r.opts.Clock().Sub(p.Time))}
	for _, s := range r.sources {
		b.Databases += int64(s.chain.size) * int64(s.chain.pageSize)
	}
	return b
}

// publish writes the point, which makes everything sent restorable.
func (r *Replica) publish(ctx context.Context, p Point) error {
	p.Number, p.Repository, p.Key, p.Encrypted = r.number+1, r.mine.Repository, r.mine.Key, len(r.keys.recipients) > 0
	if p.Time.IsZero() {
		p.Time = r.opts.Clock()
	}
	if r.opts.Once {
		if err := r.checkPoint(ctx, p); err != nil {
			return err
		}
		p.Backup = r.size(p)
	}
	if err := r.opts.Fault("publish"); err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// If the response is lost, the point may exist, so the number must not be reused.
	r.number = p.Number
	if err := r.put(ctx, pointName(p), r.keys.unencrypted(), bytes.NewReader(text), int64(len(text))); err != nil {
		return err
	}
	r.mu.Lock()
	r.published = p
	r.mu.Unlock()
	if err := r.rememberIfDue(p); err != nil {
		return err
	}
	for database, position := range p.Files {
		if err := r.sentRange(database, position.Run, ""); err != nil {
			return err
		}
	}
	return r.opts.Fault("published")
}
