package extstorage

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// Import is an import while it runs. Use the same value for all its calls. It is not safe for concurrent use.
type Import struct {
	// Preserve keeps revisions and times. It is for operators only: with chosen revisions a client could hide its
	// writes.
	Preserve bool

	// LastChange is from the export header. With Preserve, change numbers continue far above it, so that no change
	// number or ETag means different things on two servers.
	LastChange Seq

	activated map[Namespace]SchemaVersion // versions that this import activated
}

// Imported counts the records in a batch.
type Imported struct {
	Written   int
	Unchanged int // identical, so imports can be repeated
	Expired   int
	Newer     int // skipped because the revision here is greater
}

// Add adds up batches.
func (d *Imported) Add(n Imported) {
	d.Written, d.Unchanged, d.Expired, d.Newer = d.Written+n.Written, d.Unchanged+n.Unchanged, d.Expired+n.Expired, d.Newer+n.Newer
}

const (
	maxImportedNumber = 1_000_000_000_000_000 // revisions and change numbers: later numbers still fit every client's number type
	maxImportedSchema = 1_000_000_000
	maxClockAhead     = 24 * time.Hour // for times with Preserve
	maxActivated      = 10_000         // namespaces that Import remembers

	// seqLeap is the gap after the other install's last change, which may have grown since the export.
	seqLeap = 1_000_000_000
)

// ErrDiverged means that both servers hold the record's revision with different contents.
var ErrDiverged error = errcode.New(errcode.Conflict, "the record exists with the same revision and different contents: delete one of them")

// Import puts at most a batch of exported records, all or nothing. Values are validated by the active schema, unless
// that schema was imported too, because values may be older. Without Preserve, existing records continue their own
// revisions and new records start at 1. With Preserve, records take the exported revisions and times, but never an
// earlier revision.
func (s *Service) Import(ctx context.Context, r Request, im *Import, records []Record) (done Imported, err error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return done, err
	}
	if len(records) > s.limits.Items {
		return done, tooMany("", "items", s.limits.Items, len(records))
	}
	r.IdempotencyKey = nil // the result depends on stored records
	if im.Preserve && im.LastChange > 0 {
		r.after = im.LastChange + seqLeap
	}
	for repeated := 0; ; repeated++ {
		done, err = s.importOnce(ctx, &p, r, im, records)
		if _, lost := errors.AsType[*MismatchError](err); !lost || repeated == repeats {
			return done, err
		}
	}
}

// importOnce compares the records with those here and puts the others. If a record changes in between, BulkPut fails
// and the caller repeats it.
func (s *Service) importOnce(ctx context.Context, p *Pass, r Request, im *Import, records []Record) (done Imported, err error) {
	now := s.moment()
	var tasks []Task
	var indexes []int
	for i := range records {
		rec := &records[i]
		if err := s.checkImported(p, im, rec, now); err != nil {
			return Imported{}, &ItemError{i, err}
		}
		if rec.ExpiresAt.Reached(now) {
			done.Expired++
			continue
		}
		old, err := s.opts.Store.Get(ctx, p.Owner, rec.Namespace, rec.Key, now)
		if err != nil && !errors.Is(err, ErrNoRecord) {
			return Imported{}, err
		}
		t := Task{Namespace: rec.Namespace, Key: rec.Key, Value: rec.Value, Metadata: rec.Metadata, until: rec.ExpiresAt, validated: im.activated[rec.Namespace]}
		if t.Metadata == "" {
			t.Metadata = canonjson.EmptyObject
		}
		equal := old.Seq != 0 && old.Value == t.Value && old.Metadata == t.Metadata && old.ExpiresAt == t.until
		if im.Preserve {
			t.restored = &Restored{rec.Revision, rec.CreatedAt, rec.UpdatedAt}
			t.Precondition = unchanged(old.Seq)
			switch {
			case old.Revision > rec.Revision:
				done.Newer++
				continue
			case old.Revision == rec.Revision && !equal:
				return Imported{}, &ItemError{i, ErrDiverged}
			}
			equal = equal && *t.restored == Restored{old.Revision, old.CreatedAt, old.UpdatedAt}
		}
		if equal {
			done.Unchanged++
			continue
		}
		tasks, indexes = append(tasks, t), append(indexes, i)
	}
	if done.Written = len(tasks); done.Written == 0 {
		return done, nil
	}
	_, err = s.BulkPut(ctx, r, tasks)
	if item, ok := errors.AsType[*ItemError](err); ok {
		err = &ItemError{indexes[item.Index], item.Err}
	}
	if err != nil {
		return Imported{}, err
	}
	return done, nil
}

// checkImported validates the parts of a record that a put does not.
func (s *Service) checkImported(p *Pass, im *Import, rec *Record, now Moment) error {
	if err := p.need(rec.Namespace, Read|Modify); err != nil {
		return err
	}
	if rec.ExpiresAt > now+Moment(s.limits.MaxTTL.Milliseconds()) {
		return &ValidationError{Pointer: "/ttlExpiresAt", Reason: "is too far in the future"}
	}
	if !im.Preserve {
		return nil
	}
	if rec.Revision == 0 {
		return Lack("revision", preserved)
	}
	if rec.Revision < 1 || rec.Revision > maxImportedNumber {
		return &ValidationError{Pointer: "/revision", Reason: "must be from 1 to 1000000000000000"}
	}
	return checkMoments(rec.CreatedAt, rec.UpdatedAt, now)
}

// checkMoments validates times for Preserve.
func checkMoments(created, updated, now Moment) error {
	latest := now + Moment(maxClockAhead.Milliseconds())
	for _, m := range []struct {
		name string
		at   Moment
	}{{"createdAt", created}, {"updatedAt", updated}} {
		switch {
		case m.at == 0:
			return Lack(m.name, preserved)
		case m.at < 1 || m.at > latest:
			return &ValidationError{Pointer: "/" + m.name, Reason: "must be at most one day in the future"}
		}
	}
	return nil
}

// preserved says which imports need a member.
const preserved = "it is required with --preserve"

// ImportHeader takes the header before any record.
func (im *Import) ImportHeader(h ExportHeader) error {
	if h.LastChange < 0 || h.LastChange > maxImportedNumber {
		return &ValidationError{Pointer: "/lastChange", Reason: "must be from 0 to 1000000000000000"}
	}
	im.LastChange = h.LastChange
	return nil
}

// ImportSchema is like Registry.Restore.
func (s *Service) ImportSchema(ctx context.Context, r Request, im *Import, sc Schema) (changed bool, err error) {
	p, err := s.may(ctx, r.Grant, sc.Namespace, Read|Modify)
	if err != nil {
		return false, err
	}
	now := s.moment()
	switch {
	case sc.Version < 1 || sc.Version > maxImportedSchema:
		return false, &ValidationError{Pointer: "/version", Reason: "must be from 1 to 1000000000"}
	case sc.Status != Draft && sc.Status != Active && sc.Status != Deprecated:
		return false, &ValidationError{Pointer: "/status", Reason: "must be draft, active or deprecated"}
	case len(im.activated) == maxActivated:
		return false, &ValidationError{Pointer: "/namespace", Reason: "exceeds the namespace limit: the import contains schemas for too many namespaces"}
	case im.Preserve:
		err = checkMoments(sc.CreatedAt, sc.UpdatedAt, now)
	default:
		sc.CreatedAt, sc.UpdatedAt, sc.CreatedBy = now, now, r.Caller.ID
	}
	if err != nil {
		return false, err
	}
	if sc.CreatedBy, err = parseUUID(sc.CreatedBy); err != nil {
		sc.CreatedBy = "" // the caller may be anonymous
	}
	if sc.Document, err = s.canonicalSchema(sc.Document); err != nil {
		return false, Under("/schema", err)
	}
	if _, err = s.opts.Registry.Schema(ctx, p.Owner, sc.Namespace, sc.Version); errors.Is(err, ErrNoSchema) {
		err = Under("/schema", s.try(ctx, r, sc.Namespace, sc.Document))
	}
	if err != nil {
		return false, err
	}
	changed, err = s.opts.Registry.Restore(ctx, p.Owner, sc, s.quota(&p.install, now), now)
	s.schemas.remove(namespaceOf{p.Owner, sc.Namespace})
	if err == nil && sc.Status == Active {
		if im.activated == nil {
			im.activated = map[Namespace]SchemaVersion{}
		}
		im.activated[sc.Namespace] = sc.Version
	}
	return changed, err
}
