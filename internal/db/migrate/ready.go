package migrate

import (
	"context"

	"holdfast/internal/fault"
)

// Ready reaches a database and is fault.Unavailable while it needs migrations:
// nothing else of a release may change the tables of a server that runs. says
// tells clients so, with %d for how many they are.
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
