package guest

import (
	"context"
	"time"
)

// MaxSold limits the items in RemoveSold.
const MaxSold = MaxWishes

// SoldItem is an item that a checkout sold.
type SoldItem struct {
	Item     string `json:"item"`
	Quantity int    `json:"quantity"` // 0: the whole entry
}

// RemoveSold is a request to remove sold items from a session's list.
type RemoveSold struct {
	Mutation
	Tenant string     // the entries' tenant; other tenants' entries stay
	Items  []SoldItem // each item once
	Until  time.Time  // entries that were added later stay
	Events []ID       // one per item
}

// RemovedSold is the result of RemoveSold, in entries.
type RemovedSold struct {
	Removed int `json:"removed"`
	Reduced int `json:"reduced"` // entries with a larger quantity than sold: the rest stays
}

// Decide decides about the entry for item i and counts it in r. The store writes next and appends the event: next is
// removed, or its quantity is reduced. An empty next.ID means that nothing changes.
func (s *RemoveSold) Decide(i int, existing Wish, now time.Time, r *RemovedSold) (next Wish, e Event, err error) {
	sold := s.Items[i].Quantity
	if !existing.isLive() || existing.Tenant != s.Tenant || existing.Added.After(s.Until) {
		return Wish{}, e, nil
	}
	next = existing
	if sold > 0 && existing.Quantity > sold {
		next.Quantity -= sold
		r.Reduced++
		e, err = wishEvent(s.Mutation, "wishlist.changed.v1", s.Events[i], next, now)
		return next, e, err
	}
	next.Removed = now
	r.Removed++
	e, err = wishEvent(s.Mutation, "wishlist.removed.v1", s.Events[i], existing, now)
	return next, e, err
}

// RemoveSold removes sold items from a list. The caller validates the request.
func (s *Service) RemoveSold(ctx context.Context, r RemoveSold) (Once[RemovedSold], error) {
	r.Events = make([]ID, len(r.Items))
	for i := range r.Events {
		r.Events[i] = NewID(EventPrefix, s.opts.Clock())
	}
	return onWishlist(ctx, s, r.Mutation, func() (Once[RemovedSold], error) { return s.opts.Store.RemoveSold(ctx, r) })
}
