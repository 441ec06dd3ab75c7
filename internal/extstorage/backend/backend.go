// Package backend has the interface that a database implements for extension storage.
package backend

import (
	"context"

	"holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/outbox"
)

// Store stores everything of the service in one database.
type Store interface {
	extstorage.Store
	inspection.Store
	extstorage.Registry
	extstorage.Installs
	extstorage.Tokens
	extstorage.Deletions

	// Outbox returns the audit events for delivery.
	Outbox() outbox.Box
}

// Indexed is a Store on a database server, where the indexes may be incomplete: they are created while servers write.
type Indexed interface {
	Store

	// Inspect checks that all indexes are valid, on Citus in every shard.
	Inspect(ctx context.Context) (Inspection, error)

	// EnsureMetadataIndex creates the metadata index without blocking writes, and reports whether it was missing.
	EnsureMetadataIndex(ctx context.Context) (made bool, err error)
}

// Inspection is the result of Indexed.Inspect.
type Inspection struct {
	MetadataIndex bool // it exists and is valid
	Problems      []Problem
}

// Problem is a finding that an operator should fix.
type Problem struct {
	Says string
	Fix  string // a command or an SQL statement
}
