package extstorage

import (
	"context"
	"time"

	"holdfast/internal/errcode"
)

// Registration is what an operator configures for an install.
type Registration struct {
	Tier       string
	Overrides  Overrides
	Namespaces map[Namespace]Access // upper limit of what tokens allow; nil: no limit
}

// Install is the registration of an install. An unregistered install is in the
// default tier and needs only a valid token.
type Install struct {
	Registration
	RevokedAt Moment // 0: not revoked
	CreatedAt Moment
	UpdatedAt Moment

	Deletion    Deletion    // zero: not deleted
	TokensAfter Moment      // tokens issued before this are refused; 0: none
	Tenant      TenantState // set by InstallState only
}

// TenantState is the state of a whole tenant.
type TenantState struct {
	Deletion    Deletion
	TokensAfter Moment
}

// Overrides are temporary quotas granted by an operator. A field that is 0 keeps
// the tier's quota.
type Overrides struct {
	Quota
	Until Moment // at most OverrideLifetime ahead
}

// OverrideLifetime is how long an override lasts unless it is renewed.
const OverrideLifetime = 14 * 24 * time.Hour

// Quota returns the quota of the install at a time, given that of its tier.
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

// Installs stores registrations.
type Installs interface {
	// Install returns a registered install, or ErrNoInstall.
	Install(ctx context.Context, o Owner) (Install, error)

	// InstallState reads everything that a request is checked against, in one
	// snapshot: the registration of an install and its tenant, the zero Install if
	// there is none, and the sorted IDs of its revoked tokens that have not
	// expired.
	InstallState(ctx context.Context, o Owner, now Moment) (in Install, revoked []string, err error)

	// SetInstall registers an install, or replaces its registration as a whole. A
	// revoked install stays revoked unless restore is set. restore also reopens a
	// deleted install like Deletions.Reopen. It returns the new registration and
	// whether it was created. Errors: ErrInstallDeleted.
	SetInstall(ctx context.Context, o Owner, r Registration, restore bool, now Moment) (in Install, created bool, err error)

	// RestoreInstall lifts the revocation of an install, and reopens a deleted install like Deletions.Reopen. It keeps the tier, the
	// overrides and the access as they are at that time. Errors: ErrNoInstall, ErrInstallDeleted.
	RestoreInstall(ctx context.Context, o Owner, now Moment) error

	// SwapQuota replaces the tier and the overrides of an install, and nothing else, if they are still those of from. It reports
	// whether it did: not if somebody else changed them, or if the install is not registered or deleted.
	SwapQuota(ctx context.Context, o Owner, from, to Registration, now Moment) (bool, error)

	// RevokeInstall revokes the access of an install, registered or not. It does
	// not change an install that is already revoked. Errors: ErrInstallDeleted.
	RevokeInstall(ctx context.Context, o Owner, now Moment) error
}

// ErrNoInstall means that an install is not registered.
var ErrNoInstall error = errcode.New(errcode.NotFound, "install is not registered")

// Access is the access to a namespace that a token or an operator allows.
type Access uint8

// Accesses: "", "r", "w" and "rw".
const (
	Read Access = 1 << iota
	Modify
)

// MarshalText returns "", "r", "w" or "rw".
func (a Access) MarshalText() ([]byte, error) {
	return []byte([...]string{"", "r", "w", "rw"}[a&(Read|Modify)]), nil
}

// UnmarshalText parses "", "r", "w" or "rw".
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
