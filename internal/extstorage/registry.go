package extstorage

import (
	"context"

	"holdfast/internal/fault"
)

// SchemaStatus is where a schema stands in its life.
type SchemaStatus string

// A schema begins as a draft. At most one of a namespace is active: what is put
// is validated by that. Activating one makes the active one deprecated.
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

// Registry keeps the schemas of all installs.
type Registry interface {
	// Register adds a draft under the namespace's next version. The newest
	// SchemasKept versions stay, and the one that is active; older ones go, and
	// no number comes twice. The namespaces that have a live record or a schema must
	// not become more than quota.Namespaces: *QuotaError.
	Register(ctx context.Context, o Owner, ns Namespace, document []byte, by string, quota Quota, now Moment) (Schema, error)

	// DropSchemas deletes one version of a namespace, or with version 0 all of them,
	// and returns how many that were. ErrSchemaNeeded when the one version is active, or
	// is the newest, whose number the next one would get. The versions of a namespace
	// without schemas begin behind all that DropSchemas or a deletion has removed from
	// the install.
	DropSchemas(ctx context.Context, o Owner, ns Namespace, v SchemaVersion, now Moment) (int, error)

	// SetStatus activates or deprecates a version; ErrNoSchema. What is what it
	// is to be already stays as it is. Nothing becomes a draft again:
	// fault.Invalid.
	SetStatus(ctx context.Context, o Owner, ns Namespace, v SchemaVersion, status SchemaStatus, now Moment) (Schema, error)

	// Schemas reads a page of the versions of a namespace, the newest first, from
	// one snapshot. The page ends where a PageEnd of the query's Limit and Bytes
	// ends it, by the sizes of the documents as the engine spells them, or earlier
	// when others write meanwhile.
	Schemas(ctx context.Context, o Owner, q SchemaQuery) (SchemaPage, error)

	// Schema reads one version; ErrNoSchema.
	Schema(ctx context.Context, o Owner, ns Namespace, v SchemaVersion) (Schema, error)

	// Restore adds a version as it was elsewhere, with its number, status, moments
	// and maker. The version of another document under its number is
	// ErrSchemaConflict. Of one that is there already only the status changes, at
	// the moment UpdatedAt, and to Draft never. What becomes active takes the place
	// of the version that is, now. A version that Register would drop is not added.
	// Restore reports whether it changed anything. The quota is that of Register.
	Restore(ctx context.Context, o Owner, sc Schema, quota Quota, now Moment) (changed bool, err error)

	// ExportSchemas reads at most limit schemas of an install, in the order of
	// namespace and version, after a position; the zero SchemaPosition is before all.
	ExportSchemas(ctx context.Context, o Owner, after SchemaPosition, limit int) ([]Schema, error)

	// Active is the schema that puts are validated by; Version 0 when there is
	// none.
	Active(ctx context.Context, o Owner, ns Namespace) (Schema, error)
}

// SchemaQuery selects a page of the versions of a namespace.
type SchemaQuery struct {
	Namespace Namespace
	Before    SchemaVersion // the page starts with the next older one; 0: with the newest
	Limit     int           // 1 to MaxPage
	Bytes     int           // of documents; 0: PageBytes
}

// SchemaPage is the answer to a SchemaQuery.
type SchemaPage struct {
	Schemas []Schema
	More    bool // there are older ones than the last
}

// SchemasKept is how many versions a namespace keeps, beside an older one that
// is active.
const SchemasKept = 100

// SchemaPosition is a place in the order of an install's schemas: behind a version.
type SchemaPosition struct {
	Namespace Namespace
	Version   SchemaVersion
}

// ErrSchemaConflict is a version that is registered with another document.
var ErrSchemaConflict error = fault.New(fault.Conflict, "this schema version is already registered with a different document")

// ErrSchemaNeeded is a version that cannot be deleted alone.
var ErrSchemaNeeded error = fault.New(fault.Conflict, "the active and the newest version of a namespace cannot be deleted alone: deprecate the active one, register another, or delete all")

// ErrNoSchema is a version that was never registered, or is not kept any more.
var ErrNoSchema error = fault.New(fault.NotFound, "schema version not found")
