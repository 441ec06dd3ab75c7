package migrate

import (
	"context"
	"strings"

	"holdfast/internal/errcode"
)

// Ready returns errcode.Unavailable unless the database is available and fully migrated. says is the client's message,
// with %d for the number of pending migrations.
func Ready(ctx context.Context, set func() (Set, error), pending func(context.Context, Set) ([]Migration, error), says string) error {
	wanted, err := set()
	if err != nil {
		return err
	}
	missing, err := pending(ctx, wanted)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if len(missing) == 1 {
			says = strings.Replace(says, "migrations", "migration", 1)
		}
		return errcode.Newf(errcode.Unavailable, says, len(missing))
	}
	return nil
}
