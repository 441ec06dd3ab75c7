package migrate

import (
	"context"
	"strings"

	"holdfast/internal/errcode"
)

// Ready returns errcode.Unavailable unless the database is available and fully migrated. set loads the migrations,
// and pending asks the database. message is for the client, with %d for the number of pending migrations.
func Ready(ctx context.Context, set func() (Set, error), pending func(context.Context, Set) ([]Migration, error), message string) error {
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
			message = strings.Replace(message, "migrations", "migration", 1)
		}
		return errcode.Newf(errcode.Unavailable, message, len(missing))
	}
	return nil
}
