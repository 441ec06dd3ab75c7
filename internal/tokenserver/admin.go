package tokenserver

import (
	"context"

	"holdfast/internal/fault"
)

// The methods in this file are what an operator sees and changes of accounts
// and nodes. Arguments, results and faults are those of Store.

// Ping reports whether the store is ready, as Store.Ping does.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }

// ParseAccount is the account that an operator names by its id or its e-mail
// address in the table users. fault.Invalid.
func (s *Service) ParseAccount(id string) (Account, error) {
	return ParseAccount(id, s.conf.FxAEmailDomain)
}

// AccountState is what the tables say of an account.
func (s *Service) AccountState(ctx context.Context, a Account) (AccountState, error) {
	return s.store.AccountState(ctx, a)
}

// ListUsers is a page of storage users in the order of their UID.
func (s *Service) ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]User, error) {
	return s.store.ListUsers(ctx, after, limit, replaced)
}

// Revoked returns whose tokens are refused though they have not expired.
func (s *Service) Revoked(ctx context.Context) (Revoked, error) {
	return s.store.Revoked(ctx, s.now().Add(-s.conf.TokenLife()))
}

// Adopt makes the storage user of an account that another server had, as the account's
// first sign-in with these keys would, also when new users are not allowed. *Refusal,
// ErrNoNode.
func (s *Service) Adopt(ctx context.Context, a Account, generation int64, keys KeyID) (User, error) {
	return s.store.SignIn(ctx, a, SignIn{
		Generation: At(generation), Keys: keys, Now: s.now(), AllowNew: true,
		ReleaseRate: s.conf.NodeCapacityReleaseRate, SpannerNode: s.conf.SpannerNodeID,
	})
}

// SetAccess allows or denies an account, or takes it off the list.
func (s *Service) SetAccess(ctx context.Context, a Account, r Rule) error {
	return s.store.SetAccess(ctx, a, r, s.now())
}

// ListAccess is a page of the accounts that are allowed or denied by name.
func (s *Service) ListAccess(ctx context.Context, after string, limit int) ([]Rule, error) {
	return s.store.ListAccess(ctx, after, limit)
}

// Refused is the accounts that were not admitted, the last refused first.
func (s *Service) Refused(ctx context.Context, limit int) ([]Refused, error) {
	return s.store.Refused(ctx, limit)
}

// ListNodes is all nodes by id.
func (s *Service) ListNodes(ctx context.Context) ([]Node, error) {
	return s.store.ListNodes(ctx)
}

// AddNode adds an empty node for that many accounts. fault.Invalid for its
// URL and its capacity, fault.Conflict.
func (s *Service) AddNode(ctx context.Context, url string, capacity int64) (Node, error) {
	url, err := CheckNodeURL(url)
	if err != nil {
		return Node{}, err
	}
	if capacity < 1 || capacity > maxCount {
		return Node{}, fault.Newf(fault.Invalid, "the capacity of a node must be from 1 to %d accounts", maxCount)
	}
	return s.store.AddNode(ctx, Node{URL: url, Capacity: capacity, Available: capacity})
}

// SetNode changes what a node takes. fault.Invalid for its URL and for numbers that
// the table cannot hold, fault.NotFound.
func (s *Service) SetNode(ctx context.Context, url string, c NodeChange) (Node, error) {
	url, err := CheckNodeURL(url)
	if err != nil {
		return Node{}, err
	}
	for _, n := range []*int64{c.Available, c.Capacity} {
		if n != nil && (*n < 0 || *n > maxCount) {
			return Node{}, fault.Newf(fault.Invalid, "the counters of a node must be from 0 to %d accounts", maxCount)
		}
	}
	return s.store.SetNode(ctx, url, c)
}
