package extstorage

import (
	"context"

	"holdfast/internal/errcode"
)

// SchemaStatus is the state of a schema in its lifecycle.
type SchemaStatus string

// A schema starts as a draft. At most one schema of a namespace is active: puts
// are validated by it. Activating another one deprecates it.
const (
	Draft      SchemaStatus = "draft"
	Active     SchemaStatus = "active"
	Deprecated SchemaStatus = "deprecated"
)

// Schema is a registered JSON Schema.
type Schema struct {
	Namespace Namespace
	Version   SchemaVersion
	Status    SchemaStatus
	Document  []byte // canonical JSON
	CreatedAt Moment
	UpdatedAt Moment
	CreatedBy string // UUID of a user or service; may be empty
}

// SchemaID names a version of a namespace's schemas.
type SchemaID struct {
	Namespace Namespace
	Version   SchemaVersion
}

// Registry stores the schemas of all installs.
type Registry interface {
	// Register adds a draft, with its namespace, document, creator and time, as the next version of
	// the namespace. The newest
	// SchemasKept versions and the active one are kept, older ones are deleted, and
	// no version number is reused. It returns a *QuotaError if the number of
	// namespaces with a live record or a schema would exceed quota.Namespaces.
	Register(ctx context.Context, o Owner, draft Schema, quota Quota) (Schema, error)

	// DropSchemas deletes one version of a namespace, or all of them if the version
	// is 0, and returns the number of deleted versions. It returns ErrSchemaNeeded
	// for a single version that is active or is the newest, because its number
	// would be reused. In a namespace without schemas, version numbers continue
	// after all that DropSchemas or a deletion has removed from the install.
	DropSchemas(ctx context.Context, o Owner, ns Namespace, v SchemaVersion, now Moment) (int, error)

	// SetStatus activates or deprecates a version. It returns ErrNoSchema if the
	// version does not exist, and errcode.Invalid for Draft. A version that already
	// has the status is not changed.
	SetStatus(ctx context.Context, o Owner, id SchemaID, status SchemaStatus, now Moment) (Schema, error)

	// Schemas reads a page of the versions of a namespace, newest first, from one
	// snapshot. The page ends where a PageEnd with the query's Limit and Bytes ends
	// it, by the sizes of the documents as the engine stores them, or earlier
	// because of concurrent writes.
	Schemas(ctx context.Context, o Owner, q SchemaQuery) (SchemaPage, error)

	// Schema reads one version, or returns ErrNoSchema.
	Schema(ctx context.Context, o Owner, ns Namespace, v SchemaVersion) (Schema, error)

	// Restore adds a version from another server with its number, status, times and
	// creator. It returns ErrSchemaConflict if the number exists with a different
	// document. Of an existing version only the status changes, at the time
	// UpdatedAt, and never to Draft. A version that becomes active replaces the
	// active one, now. A version that Register would delete is not added. Restore
	// reports whether it changed anything. The quota is that of Register.
	Restore(ctx context.Context, o Owner, sc Schema, quota Quota, now Moment) (changed bool, err error)

	// ExportSchemas reads at most limit schemas of an install, by namespace and
	// version, after a position; the zero SchemaPosition is the beginning.
	ExportSchemas(ctx context.Context, o Owner, after SchemaPosition, limit int) ([]Schema, error)

	// Active returns the schema that puts are validated by; Version is 0 if there
	// is none.
	Active(ctx context.Context, o Owner, ns Namespace) (Schema, error)
}

// SchemaQuery selects a page of the versions of a namespace.
type SchemaQuery struct {
	Namespace Namespace
	Before    SchemaVersion // the page starts with the next older version; 0: with the newest
	Limit     int           // 1 to MaxPage
	Bytes     int           // of documents; 0: PageBytes
}

// SchemaPage is the result of a SchemaQuery.
type SchemaPage struct {
	Schemas []Schema
	More    bool // there are older versions after the page
}

// SchemasKept is the number of versions that a namespace keeps, not counting an
// older one that is active.
const SchemasKept = 100

// SchemaPosition is a position in the order of an install's schemas: after a
// version.
type SchemaPosition struct {
	Namespace Namespace
	Version   SchemaVersion
}

// ErrSchemaConflict means that the version is registered with a different
// document.
var ErrSchemaConflict error = errcode.New(errcode.Conflict, "this schema version is already registered with a different document")

// ErrSchemaNeeded means that the version cannot be deleted alone.
var ErrSchemaNeeded error = errcode.New(errcode.Conflict, "the active and the newest version of a namespace cannot be deleted alone: deprecate the active one, register another, or delete all")

// ErrNoSchema means that a version was never registered or has been deleted.
var ErrNoSchema error = errcode.New(errcode.NotFound, "schema version not found")
