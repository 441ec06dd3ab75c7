package extstorage

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
)

// Import is what the steps of one import have in common.
type Import struct {
	// Preserve keeps the revisions and the moments of records and schemas. It is for
	// operators: who else chose revisions could pretend that nothing was written.
	Preserve bool

	// LastChange is that of the header of the export. With Preserve the numbers of
	// changes go on far behind it, so that no number of a change, and no ETag, means
	// one thing there and another here.
	LastChange Seq

	brought map[Namespace]SchemaVersion // schemas that came, and are active
}

// Imported counts what an import did with its records.
type Imported struct {
	Written int
	Same    int // were there already, as they are: an import may come again
	Expired int // were left out
	Newer   int // have a greater revision here, and were left as they are
}

// Add adds what another step did.
func (d *Imported) Add(n Imported) {
	d.Written, d.Same, d.Expired, d.Newer = d.Written+n.Written, d.Same+n.Same, d.Expired+n.Expired, d.Newer+n.Newer
}

// Bounds of what an import may preserve.
const (
	maxImportedNumber = 1_000_000_000_000_000 // revisions and changes: what is counted from there on stays a number in every client
	maxImportedSchema = 1_000_000_000         // versions of schemas
	maxClockAhead     = 24 * time.Hour        // how far the clock of the other server may be ahead
	maxBrought        = 10_000                // namespaces with a schema, of which an import remembers one each

	// seqLeap is how far behind the other install's last change numbers go on: it
	// may have gone on, too, after it was exported.
	seqLeap = 1_000_000_000
)

// ErrDiverged is a record that has the same revision here and there, with other
// contents.
var ErrDiverged error = fault.New(fault.Conflict, "the record exists with the same revision and different contents: delete one of the two")

// Import puts records as Export gave them: at most as many as a batch may have,
// all or none. A time to live ends when it ended there. Values are validated by the
// active schema, unless that came with the import: then they may be older than it.
// A record that was there before goes on with its own revisions, and a new one
// begins with 1; with Preserve the revision and the moments are those of the export,
// and no record goes back to an earlier revision. The failure of one is an
// *ItemError.
func (s *Service) Import(ctx context.Context, r Request, im *Import, records []Record) (done Imported, err error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return done, err
	}
	if len(records) > s.limits.Items {
		return done, tooMany("", "items", s.limits.Items, len(records))
	}
	r.IdempotencyKey = nil // what it does depends on what is there
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

// importOnce fails with a *MismatchError when a record has changed since it was read.
func (s *Service) importOnce(ctx context.Context, p *Pass, r Request, im *Import, records []Record) (done Imported, err error) {
	now := s.moment()
	var tasks []Task
	var indexes []int // of the tasks' records
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
		t := Task{Namespace: rec.Namespace, Key: rec.Key, Value: rec.Value, Metadata: rec.Metadata, until: rec.ExpiresAt, brought: im.brought[rec.Namespace]}
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
			done.Same++
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

// checkImported checks what BulkPut does not see of a record.
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
	if rec.Revision < 1 || rec.Revision > maxImportedNumber {
		return &ValidationError{Pointer: "/revision", Reason: "must be from 1 to 1000000000000000"}
	}
	return checkMoments(rec.CreatedAt, rec.UpdatedAt, now)
}

func checkMoments(created, updated, now Moment) error {
	const reason = "is required with --preserve, and must be at most one day in the future"
	most := now + Moment(maxClockAhead.Milliseconds())
	switch {
	case created < 1 || created > most:
		return &ValidationError{Pointer: "/createdAt", Reason: reason}
	case updated < 1 || updated > most:
		return &ValidationError{Pointer: "/updatedAt", Reason: reason}
	}
	return nil
}

// ImportHeader takes what an export begins with.
func (im *Import) ImportHeader(h ExportHeader) error {
	if h.LastChange < 0 || h.LastChange > maxImportedNumber {
		return &ValidationError{Pointer: "/lastChange", Reason: "must be from 0 to 1000000000000000"}
	}
	im.LastChange = h.LastChange
	return nil
}

// ImportSchema registers a schema under the version that it has, with its status.
// It reports whether that changed anything. A version that is registered with
// another document is ErrSchemaConflict. Without Preserve it is made now, by the
// caller.
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
	case len(im.brought) == maxBrought:
		return false, &ValidationError{Pointer: "/namespace", Reason: "is one namespace too many: the import has schemas for too many namespaces"}
	case im.Preserve:
		err = checkMoments(sc.CreatedAt, sc.UpdatedAt, now)
	default:
		sc.CreatedAt, sc.UpdatedAt, sc.CreatedBy = now, now, r.Caller.ID
	}
	if err != nil {
		return false, err
	}
	if sc.CreatedBy, err = parseUUID(sc.CreatedBy); err != nil {
		sc.CreatedBy = "" // not everybody has one
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
	s.schemas.remove(namespaceOf{p.Owner, sc.Namespace}) // also of an error, which may have come too late
	if err == nil && sc.Status == Active {
		if im.brought == nil {
			im.brought = map[Namespace]SchemaVersion{}
		}
		im.brought[sc.Namespace] = sc.Version
	}
	return changed, err
}
