package extstorage

import (
	"context"

	"holdfast/internal/errcode"
)

// SchemaStatus is the state of a version.
type SchemaStatus string

// Schemas start as drafts. A namespace's single active schema validates puts; activating another deprecates it.
const (
	Draft      SchemaStatus = "draft"
	Active     SchemaStatus = "active"
	Deprecated SchemaStatus = "deprecated"
)

// Schema is a version of a namespace's schema.
type Schema struct {
	Namespace Namespace
	Version   SchemaVersion
	Status    SchemaStatus
	Document  []byte // canonical JSON, at most MaxSchemaBytes; shared, so nobody changes it
	CreatedAt Moment
	UpdatedAt Moment
	CreatedBy string // user or service UUID, or ""
}

// SchemaID names a version in an install.
type SchemaID struct {
	Namespace Namespace
	Version   SchemaVersion
}

// Registry stores schemas. Documents are checked before they get here.
type Registry interface {
	// Register adds a draft as the namespace's next version, even if the document is registered already. It sets Version,
	// Status and UpdatedAt, and uses the draft's other fields; CreatedAt is the time of the write. It keeps the newest
	// SchemasKept versions and the active version, and never reuses numbers, not even numbers of a server that a restored
	// backup replaces. It returns ErrNoVersionLeft after MaxSchemaVersion. The quota limits namespaces with a live record
	// or schema.
	Register(ctx context.Context, o Owner, draft Schema, quota Quota) (Schema, error)

	// DropSchemas deletes a version, or all versions of a namespace if v is 0, and returns how many: 0 for an unknown
	// version. It returns ErrSchemaNeeded for the active version, and for the newest version, whose number would be reused.
	DropSchemas(ctx context.Context, o Owner, ns Namespace, v SchemaVersion, now Moment) (int, error)

	// SetStatus activates or deprecates a version. It returns ErrNoSchema, or errcode.Invalid for Draft.
	SetStatus(ctx context.Context, o Owner, id SchemaID, status SchemaStatus, now Moment) (Schema, error)

	// Schemas reads a page of versions, newest first, from a snapshot, ending like a PageEnd over stored sizes, or
	// earlier under concurrent writes.
	Schemas(ctx context.Context, o Owner, q SchemaQuery) (SchemaPage, error)

	// Schema returns ErrNoSchema for a version that does not exist or was deleted.
	Schema(ctx context.Context, o Owner, ns Namespace, v SchemaVersion) (Schema, error)

	// Restore adds a version from another server with its number, status, times and creator, and reports whether
	// anything changed. An existing version only changes status, at sc.UpdatedAt and never to Draft, and with another
	// document it is ErrSchemaConflict. A version that is neither active nor among the newest SchemasKept is left out. now
	// is the time of the write, e.g. for the version that is active no more.
	Restore(ctx context.Context, o Owner, sc Schema, quota Quota, now Moment) (changed bool, err error)

	// ExportSchemas reads at most limit schemas by namespace and version, after a position; fewer mean that none follow.
	ExportSchemas(ctx context.Context, o Owner, after SchemaPosition, limit int) ([]Schema, error)

	// Active returns version 0 if no schema is active.
	Active(ctx context.Context, o Owner, ns Namespace) (Schema, error)
}

// SchemaQuery selects a page of versions.
type SchemaQuery struct {
	Namespace Namespace
	Before    SchemaVersion // exclusive; 0 means from the newest
	Limit     int           // at least 1
	Bytes     int           // as in Query
}

type SchemaPage struct {
	Schemas []Schema
	More    bool // older versions follow
}

// SchemasKept is how many versions a namespace keeps, in addition to an older active version.
const SchemasKept = 100

// SchemaPosition is a position after a schema in an install.
type SchemaPosition struct {
	Namespace Namespace
	Version   SchemaVersion
}

// ErrSchemaConflict means that the version exists with a different document.
var ErrSchemaConflict error = errcode.New(errcode.Conflict, "this schema version is already registered with a different document")

// ErrSchemaNeeded means that the version cannot be deleted without deleting the whole namespace's schemas.
var ErrSchemaNeeded error = errcode.New(errcode.Conflict, "the active and the newest version in a namespace cannot be deleted alone: deprecate the active version, register another, or delete all")

// ErrNoVersionLeft means that the next version would be greater than MaxSchemaVersion, e.g. because a great number was
// imported.
var ErrNoVersionLeft error = errcode.Newf(errcode.Conflict, "no schema version is left: the greatest is %d, and numbers are not reused", MaxSchemaVersion)

// ErrNoSchema means that the version does not exist or was deleted.
var ErrNoSchema error = errcode.New(errcode.NotFound, "schema version not found")
