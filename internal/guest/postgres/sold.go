package postgres

import (
	"context"

	"holdfast/internal/guest"
)

// RemoveSold implements guest.Store.
func (s *Store) RemoveSold(ctx context.Context, sold guest.RemoveSold) (guest.Once[guest.RemovedSold], error) {
	return mutate(ctx, s, "guest.remove_sold", sold.Mutation, func(t *tx) (r guest.RemovedSold, err error) {
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
				err = t.t.Queue(sqlChangeWish, string(t.session), guest.ItemKey(item.Item), next.Note, next.Quantity)
			default:
				err = t.t.Queue(sqlRemoveWish, string(t.session), guest.ItemKey(item.Item), t.now)
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
