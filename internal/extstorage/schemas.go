package extstorage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strconv"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// MaxSchemaBytes limits schema documents, in canonical bytes.
const MaxSchemaBytes = 64 << 10

var errNotActive = &ValidationError{Pointer: "/schemaVersion", Reason: "must be the active schema version"}

// validate returns the version that the value satisfies. A cached schema may be outdated, so a rejection is decided
// again with the stored schema. want is the version that the client requires.
func (s *Service) validate(ctx context.Context, at namespaceOf, v canonjson.Value, want Optional[SchemaVersion]) (SchemaVersion, error) {
	known, cached := s.schemas.get(at)
	var refused error
	if cached {
		if refused = s.hold(ctx, at.Tenant, known, v, want); refused == nil || !errcode.Is(refused, errcode.Invalid) {
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

// activeSchema returns the active schema, from the cache if possible.
func (s *Service) activeSchema(ctx context.Context, at namespaceOf) (Schema, error) {
	if known, cached := s.schemas.get(at); cached {
		return known, nil
	}
	return s.loadSchema(ctx, at)
}

// loadSchema reads the active schema and caches it.
func (s *Service) loadSchema(ctx context.Context, at namespaceOf) (Schema, error) {
	active, err := s.opts.Registry.Active(ctx, at.Owner, at.Namespace)
	if err == nil {
		s.schemas.add(at, active)
	}
	return active, err
}

// same reports whether both validate alike.
func (sc *Schema) same(other Schema) bool {
	return sc.Version == other.Version && bytes.Equal(sc.Document, other.Document)
}

// hold validates a value by a schema. want, if set, must be its version.
func (s *Service) hold(ctx context.Context, tenant TenantID, sc Schema, v canonjson.Value, want Optional[SchemaVersion]) error {
	if want.Set && want.Value != sc.Version {
		return errNotActive
	}
	if sc.Version == 0 {
		return nil
	}
	return s.opts.Validators.Validate(ctx, tenant, sc.Document, v)
}

// SchemaChange is a difference between two documents.
type SchemaChange struct {
	Pointer string // in the new document, or in the old document if removed
	Change  string // for people
	Effect  string // "harmless", "unknown" or "breaking"
}

// Compatibility lists differences between two documents, and the worst effect.
type Compatibility struct {
	Effect  string
	Changes []SchemaChange
}

const maxFailures = 10

// DryRun is the result of validating stored records by a schema.
type DryRun struct {
	Checked, Failed int
	First           []DryFailure // at most maxFailures, by key
	Next            string       // cursor if time ran out, otherwise ""
}

// DryFailure is a record that a schema rejects.
type DryFailure struct {
	Key      Key
	Revision Revision
	Pointer  string // into the value
	Reason   string
}

// SchemaReport is the result of checking a new schema.
type SchemaReport struct {
	Active        SchemaVersion // compared version; 0 without an active version
	Compatibility Compatibility
	DryRun        DryRun
}

// canonicalSchema parses and checks a document.
func (s *Service) canonicalSchema(document []byte) ([]byte, error) {
	v, err := canonjson.Parse(document, MaxSchemaBytes)
	if err != nil {
		return nil, err
	}
	return []byte(v), s.opts.Documents.Check([]byte(v))
}

// samples is the number of stored records on which a new schema is tried.
const samples = 8

// RegisterSchema adds a draft after checking it and trying it on a few records.
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
		by = ""
	}
	now := s.moment()
	return s.opts.Registry.Register(ctx, p.Owner, Schema{Namespace: ns, Document: document, CreatedBy: by, CreatedAt: now}, s.quota(&p.install, now))
}

// DropSchemas deletes a version, or all if v is 0. The token needs Read and Modify. See Registry.
func (s *Service) DropSchemas(ctx context.Context, r Request, ns Namespace, v SchemaVersion) (int, error) {
	p, err := s.may(ctx, r.Grant, ns, Read|Modify)
	if err != nil {
		return 0, err
	}
	n, err := s.opts.Registry.DropSchemas(ctx, p.Owner, ns, v, s.moment())
	s.schemas.remove(namespaceOf{p.Owner, ns})
	return n, err
}

// try compiles the schema in a process that can be killed, because a hostile document could take all memory.
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

// Schemas lists versions, newest first. next is "" on the last page.
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

// Schema returns a version. The token needs Read.
func (s *Service) Schema(ctx context.Context, r Request, ns Namespace, v SchemaVersion) (Schema, error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return Schema{}, err
	}
	return s.opts.Registry.Schema(ctx, p.Owner, ns, v)
}

// SetSchema activates or deprecates a version. It returns ErrNoSchema, or *ValidationError if the version was
// registered under other limits and is no longer valid.
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
	sc, err := s.opts.Registry.SetStatus(ctx, p.Owner, SchemaID{Namespace: ns, Version: v}, status, s.moment())
	s.schemas.remove(namespaceOf{p.Owner, ns})
	return sc, err
}

// CheckSchema compares a document with the active schema and validates as many stored records as dry_run_time allows.
// If records remain, the report contains a cursor to continue.
func (s *Service) CheckSchema(ctx context.Context, r Request, ns Namespace, document []byte, cursor string) (report SchemaReport, err error) {
	if _, err := s.may(ctx, r.Grant, ns, Read); err != nil {
		return report, err
	}
	if document, err = s.canonicalSchema(document); err != nil {
		return report, Under("/schema", err)
	}
	return s.check(ctx, r, ns, document, cursor)
}

// CheckVersion is like CheckSchema, but for a registered version.
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

// check compares and validates. A cursor continues the validation and skips the trial.
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

// CheckStored validates as many stored records as dry_run_time allows against the active schema. Version 0 means that the
// namespace has none. The token needs Read.
func (s *Service) CheckStored(ctx context.Context, r Request, ns Namespace) (v SchemaVersion, result DryRun, err error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return 0, result, err
	}
	err = r.do(ctx, s.dryRuns, func() error {
		active, err := s.opts.Registry.Active(ctx, p.Owner, ns)
		if v = active.Version; err != nil || v == 0 {
			return err
		}
		result, _, err = s.dryRun(ctx, p.Owner, Position{Namespace: ns}, active.Document)
		return err
	})
	return v, result, err
}

// compare also answers if the active schema is no longer valid.
func (s *Service) compare(active, document []byte) (Compatibility, error) {
	c, err := s.opts.Documents.Compatible(active, document)
	if _, limited := errors.AsType[*ValidationError](err); limited {
		const change = "the active schema no longer meets the limits and cannot be compared"
		return Compatibility{Effect: "unknown", Changes: []SchemaChange{{Change: change, Effect: "unknown"}}}, nil
	}
	return c, err
}

// These limit concurrent schema trials of each kind. A tenant may run one less, because a hostile schema keeps a CPU
// busy until its request ends.
const (
	schemaTurns   = 2
	schemaWaiting = 256
)

// newSchemaPool returns a pool for one kind of trial.
func newSchemaPool(c *Config) *fairshare.Pool {
	return fairshare.New(schemaTurns, schemaWaiting, c.RequestTimeout)
}

// dryRun validates records after a position until the time is over. It checks at least a single record, so that a
// cursor always makes progress. last is "" at the end.
func (s *Service) dryRun(ctx context.Context, o Owner, after Position, document []byte) (run DryRun, last Key, err error) {
	ns, now, until := after.Namespace, s.moment(), s.opts.Clock().Add(s.DryRunTime())
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

// dryRunOf validates a record and counts the result.
func (s *Service) dryRunOf(ctx context.Context, o Owner, run *DryRun, document []byte, rec *Record) error {
	if ctx.Err() != nil {
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
			run.First = append(run.First, DryFailure{rec.Key, rec.Revision, v.Failures[0].Location, v.Failures[0].Message()})
		}
	}
	return nil
}

// cut ends a run early. A request that timed out returns the part that was checked, with a cursor.
func (run *DryRun) cut(ctx context.Context, last Key, err error) (DryRun, Key, error) {
	switch {
	case ctx.Err() == nil:
		return *run, "", err
	case run.Checked > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return *run, last, nil
	}
	return *run, "", errcode.Wrap(errcode.Unavailable, "the dry run timed out", err)
}
