package app

import (
	"context"
	"errors"
	"strings"

	"holdfast/internal/db/rows"
	"holdfast/internal/fault"
)

// namedTarget names itself in errors of the database server.
type namedTarget struct {
	rows.Database
	where string
}

func (t namedTarget) View(ctx context.Context, fn func(rows.View) error) error {
	return unavailable(t.where, t.Database.View(ctx, fn))
}

func (t namedTarget) Update(ctx context.Context, fn func(rows.Update) error) error {
	return unavailable(t.where, t.Database.Update(ctx, fn))
}

// unavailableError means that a target cannot be used now.
type unavailableError struct {
	where string
	err   error
}

// Error drops the lines after the first, which have details of the driver.
func (e *unavailableError) Error() string {
	line, _, _ := strings.Cut(e.err.Error(), "\n")
	return e.where + ": " + line + ": run the same command again when the database can be used"
}

func (e *unavailableError) Unwrap() error { return e.err }

// unavailable adds what to do to an error of a target that cannot be used. Errors of sources, which
// a comparison returns too, have no code.
func unavailable(where string, err error) error {
	if _, named := errors.AsType[*unavailableError](err); named || !fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return &unavailableError{where, err}
}

// Migrate creates the tables of the targets, or updates them.
func (m *Import) Migrate(ctx context.Context) error {
	for _, p := range m.Parts {
		if _, err := p.Database.Migrate(ctx); err != nil {
			return unavailable(p.Database.Where, err)
		}
	}
	return nil
}

// copied returns the number of rows in the target.
func (p *ImportPart) copied(ctx context.Context) (total int64, err error) {
	err = p.copy.target.View(ctx, func(v rows.View) error {
		total = 0
		for _, g := range p.copy.Groups {
			for _, t := range g.Tables {
				n, err := v.Count(t, 0)
				if err != nil {
					return err
				}
				total += n
			}
		}
		return nil
	})
	return total, err
}
