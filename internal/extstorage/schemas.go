package extstorage

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"holdfast/internal/canonjson"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
)

// MaxSchemaBytes is the size of a schema document in canonical JSON.
const MaxSchemaBytes = 64 << 10

// errNotActive is a put that wants to be held against a version of its own choice.
var errNotActive = &ValidationError{Pointer: "/schemaVersion", Reason: "must be the version that is active"}

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

var errSchemaTooLarge = fault.New(fault.TooLarge, "the schema is larger than it may be")

// canonicalSchema makes a document canonical and checks it. Places are in it.
func (s *Service) canonicalSchema(document []byte) ([]byte, error) {
	v, err := canonjson.Parse(document, MaxSchemaBytes)
	switch {
	case errors.Is(err, canonjson.ErrTooLarge):
		return nil, errSchemaTooLarge
	case err != nil:
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
	return s.opts.Registry.Register(ctx, p.Owner, ns, document, by, s.moment())
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
			return nil, "", under("/cursor", err)
		}
		before, err := strconv.ParseInt(place, 10, 32)
		if err != nil {
			return nil, "", under("/cursor", errCursor)
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
				err = &ValidationError{Pointer: "/status", Reason: "must be deprecated: the schema was registered by other limits, and it " + v.Reason}
			}
			return Schema{}, err
		}
	}
	sc, err := s.opts.Registry.SetStatus(ctx, p.Owner, ns, v, status, s.moment())
	s.schemas.remove(namespaceOf{p.Owner, ns}) // also of an error, which may have come too late
	return sc, err
}

// CheckSchema compares a document with the active schema and holds the stored
// records against it. It registers nothing.
func (s *Service) CheckSchema(ctx context.Context, r Request, ns Namespace, document []byte) (report SchemaReport, err error) {
	if _, err := s.may(ctx, r.Grant, ns, Read); err != nil {
		return report, err
	}
	if document, err = s.canonicalSchema(document); err != nil {
		return report, err
	}
	if err := s.try(ctx, r, ns, document); err != nil {
		return report, err
	}
	return s.report(ctx, r, ns, document)
}

// CheckVersion is CheckSchema of a version that is registered: ErrNoSchema. One that
// was registered by other limits may be refused.
func (s *Service) CheckVersion(ctx context.Context, r Request, ns Namespace, v SchemaVersion) (report SchemaReport, err error) {
	sc, err := s.Schema(ctx, r, ns, v)
	if err != nil {
		return report, err
	}
	if err := s.opts.Documents.Check(sc.Document); err != nil {
		return report, err
	}
	if err := s.try(ctx, r, ns, sc.Document); err != nil {
		return report, err
	}
	return s.report(ctx, r, ns, sc.Document)
}

// report compares a document with the active one, and makes the dry run. It waits
// for its turn.
func (s *Service) report(ctx context.Context, r Request, ns Namespace, document []byte) (report SchemaReport, err error) {
	o := r.Grant.Owner
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
		report.DryRun, err = s.dryRun(ctx, o, ns, document)
		return err
	})
	return report, err
}

// compare compares the active document with one that passes Check.
func (s *Service) compare(active, document []byte) (Compatibility, error) {
	c, err := s.opts.Documents.Compatible(active, document)
	if _, limited := errors.AsType[*ValidationError](err); limited {
		const change = "the active schema was registered by other limits and cannot be compared"
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
	return fair.NewPool(fair.Options{
		Capacity: schemaTurns, Reserve: fair.Reserve(schemaTurns), Waiting: schemaWaiting, Wait: c.RequestTimeout,
	})
}

// dryRun goes through the records of a namespace page by page.
func (s *Service) dryRun(ctx context.Context, o Owner, ns Namespace, document []byte) (run DryRun, err error) {
	now := s.moment()
	for after := (Position{Namespace: ns}); ; {
		page, err := s.opts.Store.Export(ctx, o, ExportQuery{After: after, Limit: MaxPage, Now: now})
		if err != nil {
			return run, err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if rec.Namespace != ns {
				return run, nil
			}
			if ctx.Err() != nil { // one page may take minutes
				return run, fault.Wrap(fault.Unavailable, "the dry run was not done in time", context.Cause(ctx))
			}
			run.Checked++
			err := s.opts.Validators.Validate(ctx, o.Tenant, document, rec.Value)
			switch v, refused := err.(*ValidationError); { //nolint:errorlint // as Validators says
			case err == nil:
			case !refused:
				return run, err
			default:
				if run.Failed++; len(run.First) < maxFailures {
					run.First = append(run.First, DryFailure{rec.Key, rec.Revision, v.Pointer, v.Reason})
				}
			}
		}
		if !page.More {
			return run, nil
		}
		last := &page.Records[len(page.Records)-1]
		after = Position{last.Namespace, last.Key}
	}
}
