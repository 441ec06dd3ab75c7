package service

import (
	"context"

	"holdfast/internal/db/rows"
)

// Import describes a database of another server from which `holdfast import` fills the tables
// of a service.
type Import struct {
	Of   string // the service whose import includes this one
	Flag string // the flag that takes the URL
	Doc  string // of the flag

	// Open parses the URL. It does not connect.
	Open func(url string, s Server) (Source, error)

	// Owners, if set, names the table whose numbers are the owners of the service Of, so that
	// no number with data is assigned again.
	Owners string
}

// Source is a database of another server. It is only read.
type Source interface {
	// Where returns the URL without secrets.
	Where() string

	// Check returns an error if tables are missing or may not be read.
	Check(ctx context.Context) error

	// View calls fn with one snapshot, in which rows have the form of Service.Tables. Find,
	// Changes and State of the view must not be called. The view may be a Stamper.
	View(ctx context.Context, fn func(rows.View) error) error

	// Problems calls report with each row that is not imported as it is.
	Problems(ctx context.Context, report func(Problem)) error

	// Advice returns what the operator should know before he starts the server, a line each.
	Advice(ctx context.Context) ([]string, error)
}

// Stamper is a view that knows which owners have changed without reading all rows.
type Stamper interface {
	// Stamps returns a digest of each owner of a group, by the text of the owner. It differs
	// after every change by the other server. ok is false if all rows must be read.
	Stamps(g *rows.Group) (stamps map[string]rows.Digest, ok bool, err error)
}

// Problem is a row that is left out, or that is imported and deserves attention.
type Problem struct {
	Left bool   // the row is left out
	What string // is wrong with it, in the same words for all such rows
	Row  string // names the row
	Fix  string // what to do before the server starts; "" if nothing; the same for all such rows
}
