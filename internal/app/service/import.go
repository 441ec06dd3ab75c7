package service

import (
	"context"

	"holdfast/internal/db/rows"
)

// Import describes another server's database, which `holdfast import` copies to a service's tables.
type Import struct {
	Of   string // service whose import includes this one
	Flag string // of the command, with the database's URL
	Doc  string // help for the flag

	// Open parses the URL without connecting.
	Open func(url string, s Server) (Source, error)

	// Table of Of's import whose numbers own the data, so that no number with data is reassigned; may be "".
	Owners string
}

// Source is another server's database. It is only read.
type Source interface {
	// Where returns the URL without secrets.
	Where() string

	// Check returns why the database cannot be imported, before anything is written.
	Check(ctx context.Context) error

	// View calls fn with a snapshot whose rows match Service.Tables. Its Find, Changes and State must not be called.
	// It may be a Stamper.
	View(ctx context.Context, fn func(rows.View) error) error

	// Problems reports each row that is not imported unchanged.
	Problems(ctx context.Context, report func(Problem)) error

	// Advice returns notes for the operator before the first start, a line each.
	Advice(ctx context.Context) ([]string, error)
}

// Stamper is a view that detects changed owners without reading all rows.
type Stamper interface {
	// Stamps returns a digest by owner, which changes with every change by the other server. If not ok, all rows must
	// be read.
	Stamps(g *rows.Group) (stamps map[string]rows.Digest, ok bool, err error)
}

// Problem is a row that is skipped, or imported with a caveat.
type Problem struct {
	Left bool   // the row is skipped
	What string // the same words for all such rows
	Row  string // names the row
	Fix  string // remedy before the first start, or ""; the same for all such rows

	// Usual means that such rows occur in every import and need nothing, so `holdfast check` does not repeat them.
	Usual bool
}
