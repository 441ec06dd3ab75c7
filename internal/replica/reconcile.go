package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

const (
	// reconcileEvery is the minimum interval of reconciliations, which find other processes' writes. At least
	// restFactor times a reconciliation's duration passes before the next.
	reconcileEvery = time.Hour
	restFactor     = 10

	// batch limits a reconciliation's memory: the missing bodies uploaded before it rereads the database, and the
	// bodies that it deletes in one step.
	batch = 10_000

	// tries is how often a reconciliation tries to upload a body.
	tries = 3

	// namesInStatus is the number of unreadable bodies in BodyStatus.Names.
	namesInStatus = 20

	// recordName is the object with the record.
	recordName = "unreferenced-bodies"
)

// nameHash is half of the SHA-256 of an object's name: it takes less memory than the name.
type nameHash [16]byte

func hashOf(object string) nameHash {
	sum := sha256.Sum256([]byte(object))
	return nameHash(sum[:16])
}

func (h nameHash) compare(o nameHash) int { return bytes.Compare(h[:], o[:]) }

// record maps unreferenced bodies in the target to the last point that may need them. Point numbers are safer than
// clocks.
type record map[nameHash]uint64

// noted is a set of newly unreferenced bodies that points captured after round do not need. number is the last point
// that may need them, or 0 until that point exists.
type noted struct {
	all    []nameHash
	round  uint64 // see Replica.rounds
	number uint64
}

// published is called after a point was published, with the round in which its databases were captured.
func (b *bodies) published(number, round uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.noted.all) > 0 && b.noted.number == 0 && round > b.noted.round {
		b.noted.number = number - 1
	}
}

// reconcileIfDue reconciles if a body is owed or the last reconciliation is old.
func (b *bodies) reconcileIfDue(ctx context.Context) error {
	b.mu.Lock()
	since := b.r.opts.Clock().Sub(b.reconciled)
	isDue := b.owed.isOpen && since >= restFactor*b.took || since >= reconcileEvery || since < 0 || b.reconciled.IsZero()
	isDue = isDue && b.isOpen
	b.mu.Unlock()
	if !isDue {
		return nil
	}
	return b.reconcile(ctx)
}

// reconcileIfOwed reconciles if a body is owed.
func (b *bodies) reconcileIfOwed(ctx context.Context) error {
	b.mu.Lock()
	isOwed := b.owed.isOpen
	b.mu.Unlock()
	if !isOwed {
		return nil
	}
	return b.reconcile(ctx)
}

// oweAll makes the next point wait for a reconciliation.
func (b *bodies) oweAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed.add(debt{isOpen: len(b.services) > 0})
}

// reconcile compares the services' bodies with the target's, uploads the missing ones, and deletes those that no
// point needs.
func (b *bodies) reconcile(ctx context.Context) (err error) {
	b.reconciling.Lock()
	defer b.reconciling.Unlock()
	began := b.r.opts.Clock()
	b.mu.Lock()
	b.owing, b.owed, b.sent = b.owed, debt{}, map[nameHash]bool{}
	b.mu.Unlock()
	r := &reconciliation{b: b, failed: map[nameHash]failure{}}
	err = r.run(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.owed.add(b.owing)
	} else {
		b.reconciled, b.took = began, max(0, b.r.opts.Clock().Sub(began))
		r.report()
	}
	b.owing, b.missing, b.sent, b.stuck = debt{}, debt{}, nil, err
	b.tell()
	return err
}

// mostBodies limits the memory for the hashes in have.
const mostBodies = 100_000_000

// reconciliation is a run of reconcile.
type reconciliation struct {
	b       *bodies
	have    []nameHash // sorted
	seen    []bool     // parallel to have
	failed  map[nameHash]failure
	omitted []string
	round   uint64 // rounds begun when the database was read
}

// failure is an unreadable body. It is confirmed if reading fails again after the database was reread.
type failure struct {
	name      string
	reason    string
	confirmed bool
}

// run repeats reading the database and uploading until nothing is missing.
func (r *reconciliation) run(ctx context.Context) error {
	if err := checkHolder(ctx, r.b.r.opts.Target, r.b.r.mine); err != nil {
		return err
	}
	err := r.b.r.opts.Target.Walk(ctx, bodiesAll, func(name string) error {
		if len(r.have) == mostBodies {
			return errcode.Newf(errcode.Unavailable, "the target contains more than %d files below %s: expected only those that Holdfast wrote. See who may write to the target", mostBodies, bodiesAll)
		}
		r.have = append(r.have, hashOf(name))
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(r.have, nameHash.compare)
	for {
		missing, all, err := r.missing(ctx)
		if err != nil {
			return err
		}
		r.tell(missing)
		if err := r.upload(ctx, missing); err != nil {
			return err
		}
		if all && !r.isUnconfirmed() {
			break
		}
	}
	r.round = r.b.r.begunRounds()
	return r.clean(ctx)
}

// missingBody is a body that the target lacks.
type missingBody struct {
	service, object string // name without suffix
	Body
}

// errBatch ends a walk when the batch is full.
var errBatch = errors.New("enough for now")

// missing returns the bodies that the target lacks, except queued bodies. all is false if the batch was full.
func (r *reconciliation) missing(ctx context.Context) (missing []missingBody, all bool, err error) {
	r.seen, r.omitted = make([]bool, len(r.have)), nil
	former := r.failed
	r.failed = map[nameHash]failure{}
	for _, service := range slices.Sorted(maps.Keys(r.b.services)) {
		omitted, err := r.b.services[service].Each(ctx, func(body Body) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			object := bodyName(service, body.Name)
			h := hashOf(object + r.b.r.keys.suffix())
			i, found := slices.BinarySearchFunc(r.have, h, nameHash.compare)
			if found {
				r.seen[i] = true
				return nil
			}
			if f, again := former[h]; again && f.confirmed {
				r.failed[h] = f
				return nil
			}
			if r.b.isSentOrWaits(object, h) {
				return nil
			}
			if f, again := former[h]; again {
				r.failed[h] = f
			}
			if missing = append(missing, missingBody{service, object, body}); len(missing) == batch {
				return errBatch
			}
			return nil
		})
		switch {
		case errors.Is(err, errBatch):
			maps.Copy(r.failed, former)
			return missing, false, nil
		case err != nil:
			return nil, false, errcode.Wrap(errcode.Unavailable, "cannot read which files "+service+" has", err)
		}
		r.omitted = append(r.omitted, omitted...)
	}
	return missing, true, nil
}

// tell puts the missing bodies into the status.
func (r *reconciliation) tell(missing []missingBody) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.missing = debt{count: int64(len(missing))}
	for _, m := range missing {
		r.b.missing.bytes += m.Size
	}
}

// isSentOrWaits reports whether a worker uploaded or will upload the body.
func (b *bodies) isSentOrWaits(object string, h nameHash) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[object] != nil || b.sent[h]
}

// upload uploads missing bodies, and records those that cannot be read.
func (r *reconciliation) upload(ctx context.Context, missing []missingBody) error {
	return each(ctx, r.b.parallel, missing, func(ctx context.Context, m missingBody) error {
		source, err := r.tryUpload(ctx, m)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.missing.count--
		r.b.missing.bytes -= m.Size
		h := hashOf(m.object + r.b.r.keys.suffix())
		if source != nil {
			_, again := r.failed[h]
			r.failed[h] = failure{m.service + ": " + m.Name, errcode.Message(source), again}
			return nil
		}
		delete(r.failed, h)
		r.b.sent[h] = true
		return nil
	})
}

// tryUpload is putBody with retries.
func (r *reconciliation) tryUpload(ctx context.Context, m missingBody) (source, err error) {
	for try := range tries {
		if source, err = r.b.r.putBody(ctx, m.object, m.Body); err == nil {
			break
		}
		clock.Sleep(ctx, r.b.r.opts.Interval<<try)
	}
	return source, err
}

// isUnconfirmed reports whether an unreadable body may have been deleted or moved.
func (r *reconciliation) isUnconfirmed() bool {
	for _, f := range r.failed {
		if !f.confirmed {
			return true
		}
	}
	return false
}

// report puts the unreadable bodies into the status, and logs when there are more. The caller holds the lock.
func (r *reconciliation) report() {
	s := &r.b.status
	before := s.Unreadable
	s.Unreadable, s.Names, s.Omitted = int64(len(r.failed)), nil, r.omitted
	for _, f := range r.failed {
		s.Names = append(s.Names, f.name+": "+f.reason)
	}
	slices.Sort(s.Names)
	s.Names = s.Names[:min(len(s.Names), namesInStatus)]
	if s.Unreadable > before {
		r.b.r.opts.Log.Error("files cannot be read, so they are missing in the replica", "count", s.Unreadable, "first", s.Names[0])
	}
}

// each calls fn for all values, some in parallel, and returns the first error.
func each[T any](ctx context.Context, parallel int, all []T, fn func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, v := range all {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			if err := fn(ctx, v); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// clean records newly unreferenced bodies, and deletes those recorded earlier that no remaining point needs.
func (r *reconciliation) clean(ctx context.Context) error {
	if r.b.record == nil {
		record, err := r.b.r.readRecord(ctx)
		if err != nil {
			return err
		}
		r.b.record = record
	}
	next, fresh := r.note()
	points, err := listPoints(ctx, r.b.r.opts.Target)
	if err != nil {
		return err
	}
	if err := r.b.r.writeRecord(ctx, r.b.record, next); err != nil {
		return err
	}
	r.b.record = next
	r.b.mu.Lock()
	r.b.noted = noted{all: fresh, round: r.round}
	r.b.mu.Unlock()
	if len(points) == 0 {
		return nil
	}
	return r.b.r.deleteBodies(ctx, func(h nameHash) bool {
		number, unreferenced := next[h]
		return unreferenced && number < points[0].number
	}, next)
}

// note returns the record with bodies whose last point is now known, and the newly unreferenced ones.
func (r *reconciliation) note() (next record, fresh []nameHash) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	known := map[nameHash]uint64{}
	if r.b.noted.number > 0 {
		for _, h := range r.b.noted.all {
			known[h] = r.b.noted.number
		}
	}
	next = record{}
	for i, h := range r.have {
		if r.seen[i] {
			continue
		}
		if number, ok := r.b.record[h]; ok {
			next[h] = number
		} else if number, ok := known[h]; ok {
			next[h] = number
		} else {
			fresh = append(fresh, h)
		}
	}
	return next, fresh
}

// deleteBodies deletes up to a batch of the target's bodies for which the function returns true. It lists the target
// only if all contains such a body.
func (r *Replica) deleteBodies(ctx context.Context, which func(nameHash) bool, all record) error {
	isAny := false
	for h := range all {
		isAny = isAny || which(h)
	}
	if !isAny {
		return nil
	}
	var names []string
	err := r.opts.Target.Walk(ctx, bodiesAll, func(name string) error {
		if which(hashOf(name)) {
			names = append(names, name)
		}
		if len(names) == batch {
			return errBatch
		}
		return nil
	})
	if err != nil && !errors.Is(err, errBatch) {
		return err
	}
	if err := checkHolder(ctx, r.opts.Target, r.mine); err != nil {
		return err
	}
	return each(ctx, r.bodies.parallel, names, func(ctx context.Context, name string) error {
		if err := r.opts.Fault("delete body"); err != nil {
			return err
		}
		return r.opts.Target.Delete(ctx, name)
	})
}

// finish records the bodies that points after number do not need. No capture may follow.
func (b *bodies) finish(ctx context.Context, number uint64) error {
	b.reconciling.Lock()
	defer b.reconciling.Unlock()
	b.mu.Lock()
	last := b.noted
	b.noted = noted{}
	b.mu.Unlock()
	if len(last.all) == 0 || number == 0 {
		return nil
	}
	next := maps.Clone(b.record)
	for _, h := range last.all {
		next[h] = number
		if last.number > 0 {
			next[h] = last.number
		}
	}
	err := b.r.writeRecord(ctx, b.record, next)
	if err == nil {
		b.record = next
	}
	return err
}

const (
	// entrySize is the size of an entry in the record's object: a hash and a number.
	entrySize = len(nameHash{}) + 8
	// maxRecord limits the memory for a record: 5 million bodies.
	maxRecord = int64(5_000_000 * entrySize)
)

// readRecord treats a missing, damaged or forged record as empty, so that bodies stay longer.
func (r *Replica) readRecord(ctx context.Context) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	all := record{}
	object, err := r.opts.Target.Get(ctx, recordName)
	if errcode.Is(err, errcode.NotFound) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	content := &guarded{r: object}
	defer func() { _ = content.Close() }()
	var text bytes.Buffer
	if err := r.keys.unencrypted().open(recordName, content, limited(recordName, &text, maxRecord)); err != nil {
		return all, content.failed()
	}
	for b := range slices.Chunk(text.Bytes(), entrySize) {
		if len(b) == entrySize {
			all[nameHash(b[:len(nameHash{})])] = binary.BigEndian.Uint64(b[len(nameHash{}):])
		}
	}
	return all, nil
}

// writeRecord writes the record if it changed.
func (r *Replica) writeRecord(ctx context.Context, former, next record) error {
	if maps.Equal(former, next) {
		return nil
	}
	var text []byte
	for h, number := range next {
		text = binary.BigEndian.AppendUint64(append(text, h[:]...), number)
	}
	return r.put(ctx, recordName, r.keys.unencrypted(), bytes.NewReader(text), int64(len(text)))
}
