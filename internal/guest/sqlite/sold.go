package sqlite

import (
	"context"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

// RemoveSold implements guest.Store.
func (s *Store) RemoveSold(ctx context.Context, sold guest.RemoveSold) (guest.Once[guest.RemovedSold], error) {
	return mutate(ctx, s, "remove_sold", sold.Mutation, func(t *tx) (r guest.RemovedSold, err error) {
		for i, item := range sold.Items {
			existing, err := t.wish(item.Item)
			if err != nil {
				return r, err
			}
			next, e, err := sold.Decide(i, existing, t.now, &r)
			switch {
			case err != nil:
				return r, err
			case next.ID == "":
				continue
			case next.Removed.IsZero():
				err = sqlitedb.Exec(t.c, sqlChangeWish, orNull(next.Note), orNullNumber(next.Quantity), string(t.session), guest.ItemKey(item.Item))
			default:
				err = sqlitedb.Exec(t.c, sqlRemoveWish, t.now.UnixMicro(), string(t.session), guest.ItemKey(item.Item))
			}
			if err != nil {
				return r, err
			}
			if err := t.append(e); err != nil {
				return r, err
			}
		}
		return r, nil
	})
}
