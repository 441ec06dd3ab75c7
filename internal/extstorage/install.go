package extstorage

import (
	"context"
	"time"

	"holdfast/internal/fault"
)

// Registration is what an operator says of an install.
type Registration struct {
	Tier       string
	Overrides  Overrides
	Namespaces map[Namespace]Access // what tokens may do at most; nil: what they say
}

// Install is what is registered of an install. One that is not registered is of
// the default tier, and its tokens are enough.
type Install struct {
	Registration
	RevokedAt Moment // 0: not
	CreatedAt Moment
	UpdatedAt Moment

	Deletion    Deletion    // zero: it is not deleted
	TokensAfter Moment      // tokens that were issued before are refused; 0: none
	Tenant      TenantState // only InstallState reads it
}

// TenantState is what is known of a tenant as a whole.
type TenantState struct {
	Deletion    Deletion
	TokensAfter Moment
}

// Overrides are quotas that an operator has granted for a time; a field that is
// 0 leaves the tier's.
type Overrides struct {
	Quota
	Until Moment // at most OverrideLifetime ahead
}

// OverrideLifetime is how long an override lasts unless it is renewed.
const OverrideLifetime = 14 * 24 * time.Hour

// Quota is the install's at a moment, with its tier's.
func (in *Install) Quota(tier Quota, now Moment) Quota {
	o := in.Overrides
	if o.Until.Reached(now) || o.Until == 0 {
		return tier
	}
	if o.Bytes > 0 {
		tier.Bytes = o.Bytes
	}
	if o.Namespaces > 0 {
		tier.Namespaces = o.Namespaces
	}
	if o.Keys > 0 {
		tier.Keys = o.Keys
	}
	return tier
}

// Installs keeps what is registered.
type Installs interface {
	// Install is a registered install; ErrNoInstall.
	Install(ctx context.Context, o Owner) (Install, error)

	// InstallState reads what every request is checked against, at once: what is
	// registered of an install and of its tenant, the zero Install if nothing is, and
	// the IDs of the install's tokens that are revoked and have not expired, in the
	// order of their bytes.
	InstallState(ctx context.Context, o Owner, now Moment) (in Install, revoked []string, err error)

	// SetInstall registers an install, or changes what is registered, as a whole.
	// One that is revoked stays so unless restore gives it access again. restore also
	// begins an install that was deleted anew, as Deletions.Reopen does. It returns
	// what is registered then, and whether nothing was before. ErrInstallDeleted.
	SetInstall(ctx context.Context, o Owner, r Registration, restore bool, now Moment) (in Install, created bool, err error)

	// ListInstalls reads at most limit installs of a span that are registered, revoked,
	// or were deleted, in its order, with their counters; with revoked only those whose
	// access was ended. Services is not among them.
	ListInstalls(ctx context.Context, span Span, revoked bool, limit int) ([]InstallUsage, error)

	// RevokeInstall ends the access of an install, registered or not. One that is
	// revoked stays as it is. ErrInstallDeleted.
	RevokeInstall(ctx context.Context, o Owner, now Moment) error
}

// ErrNoInstall is an install that nobody has registered.
var ErrNoInstall error = fault.New(fault.NotFound, "install not found")

// Access is what a token, or an operator, lets do in a namespace.
type Access uint8

// The accesses: "", "r", "w" and "rw".
const (
	Read Access = 1 << iota
	Modify
)

// MarshalText spells the access.
func (a Access) MarshalText() ([]byte, error) {
	return []byte([...]string{"", "r", "w", "rw"}[a&(Read|Modify)]), nil
}

// UnmarshalText reads "", "r", "w" and "rw".
func (a *Access) UnmarshalText(text []byte) error {
	switch string(text) {
	case "":
		*a = 0
	case "r":
		*a = Read
	case "w":
		*a = Modify
	case "rw":
		*a = Read | Modify
	default:
		return refuse("must be r, w or rw")
	}
	return nil
}
