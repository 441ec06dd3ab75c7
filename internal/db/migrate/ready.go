package migrate

import (
	"context"

	"holdfast/internal/fault"
)

// Ready pings a database and returns fault.Unavailable if migrations are pending,
// because only a release itself may change the tables of a running server. says is the
// message for clients, with %d for the number of pending migrations.
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
		return fault.Newf(fault.Unavailable, says, len(missing))
	}
	return nil
}
