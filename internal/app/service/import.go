package service

import (
	"context"

	"holdfast/internal/db/rows"
)

// Import describes another server's database, from which `holdfast import` fills a service's tables.
type Import struct {
	Of   string // service whose import includes this one
	Flag string // the flag that takes the URL
	Doc  string // flag description

	// Open parses the URL. It does not connect.
	Open func(url string, s Server) (Source, error)

	// Owners, if set, names the table whose numbers own the data of the service Of, so that no number with data is
	// reassigned.
	Owners string
}

// Source is another server's database. It is only read.
type Source interface {
	// Where returns the URL without secrets.
	Where() string

	// Check returns an error if tables are missing or unreadable.
	Check(ctx context.Context) error

	// View calls fn with a snapshot whose rows match Service.Tables. Do not call its Find, Changes and State. It may
	// be a Stamper.
	View(ctx context.Context, fn func(rows.View) error) error

	// Problems reports each row that is not imported unchanged.
	Problems(ctx context.Context, report func(Problem)) error

	// Advice returns notes for the operator before the first start, one per line.
	Advice(ctx context.Context) ([]string, error)
}

// Stamper is a view that detects changed owners without reading all rows.
type Stamper interface {
	// Stamps returns a digest by owner, which every change by the other server changes. ok is false if all rows must
	// be read.
	Stamps(g *rows.Group) (stamps map[string]rows.Digest, ok bool, err error)
}

// Problem is a row that is skipped, or imported with a caveat.
type Problem struct {
	Left bool   // the row is left out
	What string // the problem, in the same words for all such rows
	Row  string // names the row
	Fix  string // what to do before the first start, or ""; the same for all such rows
}
