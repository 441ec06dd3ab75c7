package buckets

import (
	"context"
	"time"

	"holdfast/internal/errcode"
)

// NameRest is how long a freed name belongs to nobody, so that its next holder does not get the requests for the last.
const NameRest = 30 * 24 * time.Hour

// MaxResting is the number of an account's names that rest. Beyond it, the names that were freed first can be claimed.
// Otherwise a client could create, publish and delete buckets to keep any number of names from everybody.
const MaxResting = 1000

// NameClaim is the right of an account's bucket to be found by its name alone, without ACCOUNT:BUCKET. Bucket names
// are unique per account only. A request for a plain name means the signing account's own bucket, and otherwise the
// bucket that claims the name, whatever the client may do with it. The first bucket that is made public or shared
// claims its name.
type NameClaim struct {
	Name    string
	Owner   AccountID // the account whose bucket has the name, or had it before Freed
	Claimed Moment
	Freed   Moment // when the bucket was deleted or made private; 0 while the claim is active
}

// RestsUntil returns when another account can claim a freed name.
func (c *NameClaim) RestsUntil() Moment { return At(c.Freed.Time().Add(NameRest)) }

// RestedBefore returns the time before which a name must have been freed for another account to claim it at now.
func RestedBefore(now Moment) Moment { return At(now.Time().Add(-NameRest)) }

// ErrNoName means that no bucket claims the name, and that it does not rest.
var ErrNoName = errcode.New(errcode.NotFound, "no bucket claims the name")

// Names stores which bucket is found by its name alone. SetBucket and DeleteBucket claim and free names in their own
// transactions, by BucketSettings.IsShared.
type Names interface {
	// NameHolder returns the account with the active claim, or "".
	NameHolder(ctx context.Context, name string) (AccountID, error)

	// NameClaim returns a claim that is active or rests, or ErrNoName.
	NameClaim(ctx context.Context, name string) (NameClaim, error)

	// NameClaims lists claims by name, with those that rest.
	NameClaims(ctx context.Context, after string, limit int) ([]NameClaim, error)

	// FreeName ends a claim and its rest, and returns it as it was. The bucket does not change. The next bucket that is
	// made public or shared claims the name.
	FreeName(ctx context.Context, name string) (NameClaim, error)

	// HiddenBuckets lists public and shared buckets whose plain name another account holds, by name and owner.
	HiddenBuckets(ctx context.Context, limit int) ([]Bucket, error)

	// ForgetNames removes at most limit claims that were freed at or before a time, and returns how many. Fewer than limit
	// mean that none is left.
	ForgetNames(ctx context.Context, before Moment, limit int) (int, error)
}

// IsShared reports whether anyone but the owner gets access, by the canned ACL or by a statement of the policy. Only
// such a bucket claims its plain name. A policy that RestrictPublicBuckets disables shares nothing.
func (s *BucketSettings) IsShared() bool {
	return s.IsOpen() || s.Policy.Shared && !(s.Policy.Public && s.PublicAccessBlock.RestrictPolicy)
}

// ChangesAccess reports whether the change may change IsShared.
func (c *SettingsChange) ChangesAccess() bool {
	return c.PublicRead != nil || c.Policy != nil || c.PublicAccessBlock != nil
}

// NameHolder returns the account whose bucket has the plain name, or "".
func (s *Service) NameHolder(ctx context.Context, name string) (AccountID, error) {
	return s.store.NameHolder(ctx, name)
}

// NameClaim returns ErrNoName for a name that anyone can claim.
func (s *Service) NameClaim(ctx context.Context, name string) (NameClaim, error) {
	return s.store.NameClaim(ctx, name)
}

// NameClaims lists claims by name, after a name.
func (s *Service) NameClaims(ctx context.Context, after string, limit int) ([]NameClaim, error) {
	return s.store.NameClaims(ctx, after, limit)
}

// FreeName lets an operator end a claim at once. See Names.
func (s *Service) FreeName(ctx context.Context, name string) (NameClaim, error) {
	return s.store.FreeName(ctx, name)
}

// HiddenBuckets lists public buckets that nobody finds by the plain name, for "holdfast check".
func (s *Service) HiddenBuckets(ctx context.Context, limit int) ([]Bucket, error) {
	return s.store.HiddenBuckets(ctx, limit)
}

// BucketsWithCORS finds the rules for a preflight, which names no account.
func (s *Service) BucketsWithCORS(ctx context.Context, name string, limit int) ([]Bucket, error) {
	return s.store.BucketsWithCORS(ctx, name, limit)
}

// ForgetNames is Names.ForgetNames for names that any account can claim.
func (s *Service) ForgetNames(ctx context.Context, now Moment, limit int) (int, error) {
	return s.store.ForgetNames(ctx, RestedBefore(now), limit)
}
