package copying

import (
	"context"
	"errors"
	"strings"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// namedDatabase names the database in errors, since a copy uses two.
type namedDatabase struct {
	rows.Database
	where string
}

func (d namedDatabase) View(ctx context.Context, fn func(rows.View) error) error {
	return Unavailable(d.where, d.Database.View(ctx, fn))
}

func (d namedDatabase) Update(ctx context.Context, fn func(rows.Update) error) error {
	return Unavailable(d.where, d.Database.Update(ctx, fn))
}

// unavailableError keeps the cause for errcode and logs.
type unavailableError struct {
	where string
	err   error
}

// Error returns the first line only, without the driver's details.
func (e *unavailableError) Error() string {
	line, _, _ := strings.Cut(e.err.Error(), "\n")
	return e.where + ": " + line + ": run the same command again when the database can be used"
}

func (e *unavailableError) Unwrap() error { return e.err }

// Unavailable adds advice to an unusable database's error. Errors from an import's source carry no code.
func Unavailable(where string, err error) error {
	if _, named := errors.AsType[*unavailableError](err); named || !errcode.Is(err, errcode.Unavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return &unavailableError{where, err}
}

// count counts all tables' rows.
func (c *Copy) count(v rows.View) (total int64, err error) {
	for _, g := range c.Groups {
		for _, t := range g.Tables {
			n, err := v.Count(t, 0)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// countTarget counts the rows that an interrupted copy has written.
func (c *Copy) countTarget(ctx context.Context) (total int64, err error) {
	err = c.target.View(ctx, func(v rows.View) (err error) { total, err = c.count(v); return err })
	return total, err
}
