package tokenserver

import (
	"context"
	"maps"
	"slices"

	"holdfast/internal/errcode"
)

// These methods are for operators. Arguments, results and errors are as in Store.

// Ping is Store.Ping.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }

// ParseAccount parses an ID with the configured domain.
func (s *Service) ParseAccount(id string) (Account, error) {
	return ParseAccount(id, s.Config().FxAEmailDomain)
}

// AccountState reads an account. See Users.
func (s *Service) AccountState(ctx context.Context, a Account) (AccountState, error) {
	return s.store.AccountState(ctx, a)
}

// FindUsers finds storage users by account ID. See Users.
func (s *Service) FindUsers(ctx context.Context, prefix, after string, limit int) ([]User, error) {
	return s.store.FindUsers(ctx, prefix, after, limit)
}

// ListUsers lists storage users by UID. See Users.
func (s *Service) ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]User, error) {
	return s.store.ListUsers(ctx, after, limit, replaced)
}

// Revoked returns the users whose tokens may still be unexpired but must be refused.
func (s *Service) Revoked(ctx context.Context) (Revoked, error) {
	return s.store.Revoked(ctx, s.now().Add(-s.Config().TokenLife()))
}

// Adopt creates an account's storage user from another server, like a first sign-in, even if new users are not
// allowed.
func (s *Service) Adopt(ctx context.Context, a Account, generation int64, keys KeyID) (User, error) {
	return s.store.SignIn(ctx, a, SignIn{
		Generation: At(generation), Keys: keys, Now: s.now(), AllowNew: true,
		ReleaseRate: s.Config().NodeCapacityReleaseRate, SpannerNode: s.Config().SpannerNodeID,
	})
}

// SetAccess sets or removes a rule. See Admission.
func (s *Service) SetAccess(ctx context.Context, a Account, r Rule) error {
	return s.store.SetAccess(ctx, a, r, s.now())
}

// FindAccounts finds known accounts by the beginning of their ID. See Admission.
func (s *Service) FindAccounts(ctx context.Context, prefix string, limit int) ([]string, error) {
	return s.store.FindAccounts(ctx, prefix, limit)
}

// ListAccess lists rules. See Admission.
func (s *Service) ListAccess(ctx context.Context, after string, limit int) ([]Rule, error) {
	return s.store.ListAccess(ctx, after, limit)
}

// Refused lists accounts that were not admitted. See Admission.
func (s *Service) Refused(ctx context.Context, limit int) ([]Refused, error) {
	return s.store.Refused(ctx, limit)
}

// SetLabel sets an operator's label, or removes the label if the text is "".
func (s *Service) SetLabel(ctx context.Context, a Account, text string) error {
	_, err := s.store.SetLabel(ctx, a, Label{FxAUID: a.FxAUID, Text: text, SetAt: millis(s.now())})
	return err
}

// LabelsOf returns labels by account ID. It asks for 500 at a time.
func (s *Service) LabelsOf(ctx context.Context, fxaUIDs []string) (map[string]Label, error) {
	labels := map[string]Label{}
	for some := range slices.Chunk(fxaUIDs, 500) {
		more, err := s.store.LabelsOf(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(labels, more)
	}
	return labels, nil
}

// FindLabels finds accounts by label. See Labels.
func (s *Service) FindLabels(ctx context.Context, prefix string, after Label, limit int) ([]Labelled, error) {
	return s.store.FindLabels(ctx, FindLabels{Prefix: prefix, Domain: s.Config().FxAEmailDomain, After: after, Limit: limit})
}

// ListNodes lists all nodes by ID.
func (s *Service) ListNodes(ctx context.Context) ([]Node, error) {
	return s.store.ListNodes(ctx)
}

// AddNode returns errcode.Invalid for a URL or capacity that cannot be stored.
func (s *Service) AddNode(ctx context.Context, url string, capacity int64) (Node, error) {
	n, err := NewNode(url, capacity)
	if err != nil {
		return Node{}, err
	}
	return s.store.AddNode(ctx, n)
}

// NewNode returns an empty node with a capacity in accounts.
func NewNode(url string, capacity int64) (Node, error) {
	url, err := CheckNodeURL(url)
	if err != nil {
		return Node{}, err
	}
	if capacity < 1 || capacity > maxCount {
		return Node{}, errcode.Newf(errcode.Invalid, "a node's capacity must be from 1 to %d accounts", maxCount)
	}
	return Node{URL: url, Capacity: capacity, Available: capacity}, nil
}

// SetNode changes a node. It returns errcode.Invalid or errcode.NotFound.
func (s *Service) SetNode(ctx context.Context, url string, c NodeChange) (Node, error) {
	url, err := CheckNodeURL(url)
	if err != nil {
		return Node{}, err
	}
	for _, n := range []*int64{c.Available, c.Capacity} {
		if n != nil && (*n < 0 || *n > maxCount) {
			return Node{}, errcode.Newf(errcode.Invalid, "a node's counters must be from 0 to %d accounts", maxCount)
		}
	}
	return s.store.SetNode(ctx, url, c)
}
