package extstorage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strconv"

	"holdfast/internal/canonjson"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
)

// MaxSchemaBytes is the size of a schema document in canonical JSON.
const MaxSchemaBytes = 64 << 10

// errNotActive is a put that wants to be held against a version of its own choice.
var errNotActive = &ValidationError{Pointer: "/schemaVersion", Reason: "must be the active schema version"}

// validate holds a value against the active schema and returns its version,
// which the Store confirms when the value is put. What a schema refuses that was
// known from before may be right by one that has been activated since, so that
// is looked up.
func (s *Service) validate(ctx context.Context, at namespaceOf, v canonjson.Value, want Optional[SchemaVersion]) (SchemaVersion, error) {
	known, cached := s.schemas.get(at)
	var refused error
	if cached {
		if refused = s.hold(ctx, at.Tenant, known, v, want); refused == nil || !fault.Is(refused, fault.Invalid) {
			return known.Version, refused
		}
	}
	active, err := s.loadSchema(ctx, at)
	if err != nil {
		return 0, err
	}
	if cached && active.same(known) {
		return active.Version, refused
	}
	return active.Version, s.hold(ctx, at.Tenant, active, v, want)
}

// activeSchema is the active schema as it was seen last.
func (s *Service) activeSchema(ctx context.Context, at namespaceOf) (Schema, error) {
	if known, cached := s.schemas.get(at); cached {
		return known, nil
	}
	return s.loadSchema(ctx, at)
}

// loadSchema reads the active schema; version 0 is none.
func (s *Service) loadSchema(ctx context.Context, at namespaceOf) (Schema, error) {
	active, err := s.opts.Registry.Active(ctx, at.Owner, at.Namespace)
	if err == nil {
		s.schemas.add(at, active)
	}
	return active, err
}

func (sc *Schema) same(other Schema) bool {
	return sc.Version == other.Version && bytes.Equal(sc.Document, other.Document)
}

// hold holds a value against one schema; version 0 lets everything pass.
func (s *Service) hold(ctx context.Context, tenant TenantID, sc Schema, v canonjson.Value, want Optional[SchemaVersion]) error {
	if want.Set && want.Value != sc.Version {
		return errNotActive
	}
	if sc.Version == 0 {
		return nil
	}
	return s.opts.Validators.Validate(ctx, tenant, sc.Document, v)
}

// SchemaChange is one difference between two documents.
type SchemaChange struct {
	Pointer string // to the place in the new document or, of what is gone, in the old
	Change  string
	Effect  string // "harmless", "unknown" or "breaking"
}

// Compatibility is what is different in a document, and the effect of the worst.
type Compatibility struct {
	Effect  string
	Changes []SchemaChange
}

// maxFailures is how many failures a dry run tells of.
const maxFailures = 10

// DryRun is what a schema would say of the records that are stored.
type DryRun struct {
	Checked, Failed int
	First           []DryFailure // maxFailures at most, by key
	Next            string       // cursor of the records that were not reached in time; "" when there are none
}

// DryFailure is a record that a schema refuses.
type DryFailure struct {
	Key      Key
	Revision Revision
	Pointer  string // into the value
	Reason   string
}

// SchemaReport is what is known of a document before it is activated.
type SchemaReport struct {
	Active        SchemaVersion // that it is compared with; 0: none
	Compatibility Compatibility // "harmless" when there is none
	DryRun        DryRun
}

// canonicalSchema makes a document canonical and checks it. Places are in it.
func (s *Service) canonicalSchema(document []byte) ([]byte, error) {
	v, err := canonjson.Parse(document, MaxSchemaBytes)
	if err != nil {
		return nil, err
	}
	return []byte(v), s.opts.Documents.Check([]byte(v))
}

// samples is how many records a new schema is tried with.
const samples = 8

// RegisterSchema adds a draft. It is checked, and tried with a few records.
func (s *Service) RegisterSchema(ctx context.Context, r Request, ns Namespace, document []byte) (Schema, error) {
	p, err := s.may(ctx, r.Grant, ns, Read|Modify)
	if err != nil {
		return Schema{}, err
	}
	if document, err = s.canonicalSchema(document); err != nil {
		return Schema{}, err
	}
	if err := s.try(ctx, r, ns, document); err != nil {
		return Schema{}, err
	}
	by, err := parseUUID(r.Caller.ID)
	if err != nil {
		by = "" // not everybody has one
	}
	now := s.moment()
	return s.opts.Registry.Register(ctx, p.Owner, ns, document, by, s.quota(&p.install, now), now)
}

// DropSchemas deletes one version of a namespace's schemas, or with version 0 all, and
// returns how many: ErrSchemaNeeded.
func (s *Service) DropSchemas(ctx context.Context, r Request, ns Namespace, v SchemaVersion) (int, error) {
	p, err := s.may(ctx, r.Grant, ns, Read|Modify)
	if err != nil {
		return 0, err
	}
	n, err := s.opts.Registry.DropSchemas(ctx, p.Owner, ns, v, s.moment())
	s.schemas.remove(namespaceOf{p.Owner, ns}) // also of an error, which may have come too late
	return n, err
}

// try tries a document with the first records of its namespace. It waits for its
// turn, and has nothing of them meanwhile.
func (s *Service) try(ctx context.Context, r Request, ns Namespace, document []byte) error {
	return r.do(ctx, s.trials, func() error {
		page, err := s.opts.Store.List(ctx, r.Grant.Owner, Query{Namespace: ns, Limit: samples, Values: true, Now: s.moment()})
		if err != nil {
			return err
		}
		values := make([][]byte, len(page.Records))
		for i := range page.Records {
			values[i] = []byte(page.Records[i].Value)
		}
		return s.opts.Documents.Trial(ctx, document, values)
	})
}

// Schemas reads a page of the versions of a namespace, the newest first, of at most
// limit versions and PageBytes, and the cursor of the next; "" when it is the last.
func (s *Service) Schemas(ctx context.Context, r Request, ns Namespace, cursor string, limit int) (schemas []Schema, next string, err error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return nil, "", err
	}
	if err := checkLimit(limit, 1, MaxPage); err != nil {
		return nil, "", err
	}
	question := []string{"schemas", string(p.Owner.Tenant), string(p.Owner.Install), string(ns)}
	q := SchemaQuery{Namespace: ns, Limit: limit}
	if cursor != "" {
		place, err := s.cursors.open(cursor, question...)
		if err != nil {
			return nil, "", Under("/cursor", err)
		}
		before, err := strconv.ParseInt(place, 10, 32)
		if err != nil {
			return nil, "", Under("/cursor", errCursor)
		}
		q.Before = SchemaVersion(before)
	}
	page, err := s.opts.Registry.Schemas(ctx, p.Owner, q)
	if err == nil && page.More {
		next = s.cursors.seal(strconv.Itoa(int(page.Schemas[len(page.Schemas)-1].Version)), question...)
	}
	return page.Schemas, next, err
}

// Schema reads one version: ErrNoSchema.
func (s *Service) Schema(ctx context.Context, r Request, ns Namespace, v SchemaVersion) (Schema, error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return Schema{}, err
	}
	return s.opts.Registry.Schema(ctx, p.Owner, ns, v)
}

// SetSchema activates or deprecates a version: ErrNoSchema. One that was registered by
// other limits may be refused to become active: *ValidationError.
func (s *Service) SetSchema(ctx context.Context, r Request, ns Namespace, v SchemaVersion, status SchemaStatus) (Schema, error) {
	p, err := s.may(ctx, r.Grant, ns, Read|Modify)
	if err != nil {
		return Schema{}, err
	}
	if status != Active && status != Deprecated {
		return Schema{}, &ValidationError{Pointer: "/status", Reason: "must be active or deprecated"}
	}
	if status == Active {
		old, err := s.opts.Registry.Schema(ctx, p.Owner, ns, v)
		if err != nil {
			return Schema{}, err
		}
		if err := s.opts.Documents.Check(old.Document); err != nil {
			if v, ok := errors.AsType[*ValidationError](err); ok {
				err = &ValidationError{Pointer: "/status", Reason: "must be deprecated: the schema no longer meets the limits, it " + v.Reason}
			}
			return Schema{}, err
		}
	}
	sc, err := s.opts.Registry.SetStatus(ctx, p.Owner, ns, v, status, s.moment())
	s.schemas.remove(namespaceOf{p.Owner, ns}) // also of an error, which may have come too late
	return sc, err
}

// CheckSchema compares a document with the active schema and holds the stored
// records against it, as many as it reaches in the setting dry_run_time. With the
// cursor of a report it goes on behind those. Places are those of a request with the
// members schema and cursor. It registers nothing.
func (s *Service) CheckSchema(ctx context.Context, r Request, ns Namespace, document []byte, cursor string) (report SchemaReport, err error) {
	if _, err := s.may(ctx, r.Grant, ns, Read); err != nil {
		return report, err
	}
	if document, err = s.canonicalSchema(document); err != nil {
		return report, Under("/schema", err)
	}
	return s.check(ctx, r, ns, document, cursor)
}

// CheckVersion is CheckSchema of a version that is registered: ErrNoSchema. One that
// was registered by other limits may be refused.
func (s *Service) CheckVersion(ctx context.Context, r Request, ns Namespace, v SchemaVersion, cursor string) (report SchemaReport, err error) {
	sc, err := s.Schema(ctx, r, ns, v)
	if err != nil {
		return report, err
	}
	if err := s.opts.Documents.Check(sc.Document); err != nil {
		return report, Under("/schema", err)
	}
	return s.check(ctx, r, ns, sc.Document, cursor)
}

// check tries a document, compares it with the active one, and makes the dry run. It
// waits for its turn. A document that has a cursor has been tried.
func (s *Service) check(ctx context.Context, r Request, ns Namespace, document []byte, cursor string) (report SchemaReport, err error) {
	o := r.Grant.Owner
	hash := sha256.Sum256(document)
	question := []string{"dry run", string(o.Tenant), string(o.Install), string(ns), string(hash[:])}
	after := Position{Namespace: ns}
	if cursor != "" {
		place, err := s.cursors.open(cursor, question...)
		if err != nil {
			return report, Under("/cursor", err)
		}
		after.Key = Key(place)
	} else if err := s.try(ctx, r, ns, document); err != nil {
		return report, Under("/schema", err)
	}
	err = r.do(ctx, s.dryRuns, func() error {
		active, err := s.opts.Registry.Active(ctx, o, ns)
		if err != nil {
			return err
		}
		report.Active, report.Compatibility.Effect = active.Version, "harmless"
		if active.Version != 0 {
			if report.Compatibility, err = s.compare(active.Document, document); err != nil {
				return err
			}
		}
		var last Key
		if report.DryRun, last, err = s.dryRun(ctx, o, after, document); last != "" {
			report.DryRun.Next = s.cursors.seal(string(last), question...)
		}
		return err
	})
	return report, err
}

// compare compares the active document with one that passes Check.
func (s *Service) compare(active, document []byte) (Compatibility, error) {
	c, err := s.opts.Documents.Compatible(active, document)
	if _, limited := errors.AsType[*ValidationError](err); limited {
		const change = "the active schema no longer meets the limits and cannot be compared"
		return Compatibility{Effect: "unknown", Changes: []SchemaChange{{Change: change, Effect: "unknown"}}}, nil
	}
	return c, err
}

// What trying schemas may take of a server: hostile ones keep a processor busy for
// as long as the request may take, and clients that read and write records have to
// get through beside them. Of each kind there may be so many at a time, and of one
// tenant one less.
const (
	schemaTurns   = 2
	schemaWaiting = 256 // requests that wait for their turn
)

func newSchemaPool(c *Config) *fair.Pool {
	return fair.New(schemaTurns, schemaWaiting, c.RequestTimeout)
}

// dryRun goes through the records of a namespace page by page, from behind a position.
// When the time is over it returns the last key that it has checked.
func (s *Service) dryRun(ctx context.Context, o Owner, after Position, document []byte) (run DryRun, last Key, err error) {
	ns, now, until := after.Namespace, s.moment(), s.opts.Clock().Add(s.opts.Config.DryRunTime)
	for {
		page, err := s.opts.Store.Export(ctx, o, ExportQuery{After: after, Limit: MaxPage, Now: now})
		if err != nil {
			return run.cut(ctx, after.Key, err)
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if rec.Namespace != ns {
				return run, "", nil
			}
			if run.Checked > 0 && !s.opts.Clock().Before(until) {
				return run, after.Key, nil
			}
			if err := s.dryRunOf(ctx, o, &run, document, rec); err != nil {
				return run.cut(ctx, after.Key, err)
			}
			after.Key = rec.Key
		}
		if !page.More {
			return run, "", nil
		}
	}
}

// dryRunOf holds a record against a document.
func (s *Service) dryRunOf(ctx context.Context, o Owner, run *DryRun, document []byte, rec *Record) error {
	if ctx.Err() != nil { // one page may take minutes
		return context.Cause(ctx)
	}
	err := s.opts.Validators.Validate(ctx, o.Tenant, document, rec.Value)
	v, refused := err.(*SchemaError) //nolint:errorlint // as Validators says
	if err != nil && !refused {
		return err
	}
	run.Checked++
	if refused {
		if run.Failed++; len(run.First) < maxFailures {
			run.First = append(run.First, DryFailure{rec.Key, rec.Revision, v.Failures[0].Location, v.Failures[0].Reason})
		}
	}
	return nil
}

// cut is the result of a dry run that an error has ended: when that is the time of the
// request, what there is, and the last key that was checked.
func (run *DryRun) cut(ctx context.Context, last Key, err error) (DryRun, Key, error) {
	switch {
	case ctx.Err() == nil:
		return *run, "", err
	case run.Checked > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return *run, last, nil
	}
	return *run, "", fault.Wrap(fault.Unavailable, "the dry run timed out", err)
}
