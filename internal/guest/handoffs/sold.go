package handoffs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// RemoveItemsRequest is a checkout's request to remove a consumed handoff's items from the guest's list.
type RemoveItemsRequest struct {
	ID     string // handoff ID
	By     string // the service's name; it must be the service that consumed the handoff
	Tenant string // restricts the service to a tenant; "": any
	Items  []guest.SoldItem
	Trace  guest.Trace
}

// RemoveItems errors.
var (
	ErrNotConsumed  = errcode.New(errcode.Conflict, "the handoff is not consumed: consume it first")
	ErrItemsRemoved = errcode.New(errcode.Conflict, "other items of this handoff were removed before: each handoff removes items once")
)

// RemoveItemsRoute is the route in stored answers.
const RemoveItemsRoute = "POST /internal/handoff/{id}/remove-items"

// RemoveItems removes sold items from the minting session's list, once per handoff: a repeated request
// returns the same result. Entries that were added after the mint stay. It returns ErrNoHandoff, ErrNotConsumed,
// ErrItemsRemoved or FieldErrors.
func (s *Service) RemoveItems(ctx context.Context, r RemoveItemsRequest) (guest.RemovedSold, error) {
	id, ok := guest.ParseID(guest.HandoffPrefix, r.ID)
	if !ok {
		return guest.RemovedSold{}, ErrNoHandoff
	}
	items, err := checkSold(s.opts.Guests.Profile(), r.Items)
	if err != nil {
		return guest.RemovedSold{}, err
	}
	h, _, err := s.opts.Store.Handoff(ctx, id)
	switch {
	case err != nil:
		return guest.RemovedSold{}, err
	case h.Payload == nil || r.Tenant != "" && h.Tenant != r.Tenant:
		return guest.RemovedSold{}, ErrNoHandoff
	case h.Consumed.IsZero():
		return guest.RemovedSold{}, ErrNotConsumed
	case h.ConsumedBy != r.By: // hidden from this service
		return guest.RemovedSold{}, ErrNoHandoff
	}
	text, err := json.Marshal(items)
	if err != nil {
		return guest.RemovedSold{}, errcode.Wrap(errcode.Internal, "encode items", err)
	}
	o, err := s.opts.Guests.RemoveSold(ctx, guest.RemoveSold{
		Mutation: guest.Mutation{
			Session: h.Session, Route: RemoveItemsRoute, Key: string(h.ID), Digest: sha256.Sum256(text), Trace: r.Trace, Profile: s.opts.Guests.Profile(),
		},
		Tenant: h.Tenant, Items: items, Until: listed(h),
	})
	if errors.Is(err, guest.ErrKeyReused) {
		err = ErrItemsRemoved
	}
	return o.Result, err
}

// listed returns Listed, which earlier releases did not store.
func listed(h Handoff) time.Time {
	if h.Listed.IsZero() {
		return h.Minted
	}
	return h.Listed
}

// maxSold limits a quantity.
const maxSold = 1_000_000_000

// checkSold requires distinct valid items, and returns them as stored.
func checkSold(p *guest.Profile, items []guest.SoldItem) ([]guest.SoldItem, error) {
	if len(items) == 0 || len(items) > guest.MaxSold {
		return nil, guest.BadMember(fmt.Sprintf("expected 1 to %d items", guest.MaxSold), "items")
	}
	all, seen := slices.Clone(items), map[string]bool{}
	for i, item := range items {
		at := "items/" + strconv.Itoa(i)
		id, valid := p.ParseItem(item.Item)
		switch {
		case !valid:
			return nil, guest.BadMember(p.ExpectedItem(), at+"/"+p.Member())
		case seen[id]:
			return nil, guest.BadMember("expected each item once", at)
		case item.Quantity < 0 || item.Quantity > maxSold:
			return nil, guest.BadMember(fmt.Sprintf("expected 1 to %d", maxSold), at+"/quantity")
		}
		seen[id], all[i].Item = true, id
	}
	return all, nil
}
