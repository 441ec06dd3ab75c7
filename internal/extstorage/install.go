package extstorage

import (
	"context"
	"time"

	"holdfast/internal/errcode"
)

// Registration is an install's operator-defined configuration.
type Registration struct {
	Tier       string               // name in extstorage.tiers; "" for the default quota
	Overrides  Overrides            // zero for none
	Namespaces map[Namespace]Access // limits tokens: nil means no limit, and a missing namespace no access
}

// Install is a registered install, or the state of an install that was never registered.
type Install struct {
	Registration
	RevokedAt Moment // 0 unless an operator revoked it
	CreatedAt Moment // 0 if not registered
	UpdatedAt Moment

	Deletion    Deletion    // zero if none was started
	TokensAfter Moment      // earlier tokens are rejected; 0 if all are valid
	Tenant      TenantState // set by InstallState only
}

// TenantState is the part of a tenant's state that decides about tokens.
type TenantState struct {
	Deletion    Deletion
	TokensAfter Moment // earlier tokens of services are rejected
}

// Overrides are temporary quotas. If one is 0, the tier's quota applies.
type Overrides struct {
	Quota
	Until Moment // at most OverrideLifetime ahead
}

// OverrideLifetime is how long overrides last unless renewed.
const OverrideLifetime = 14 * 24 * time.Hour

// Quota returns the quota in effect. tier is the quota of the install's tier.
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

// Installs stores what operators set for installs.
type Installs interface {
	// Install returns ErrNoInstall for an install that is not registered.
	Install(ctx context.Context, o Owner) (Install, error)

	// InstallState reads, in one snapshot, the registration of install and tenant (zero if not registered), and the sorted
	// IDs of unexpired revoked tokens.
	InstallState(ctx context.Context, o Owner, now Moment) (in Install, revoked []string, err error)

	// SetInstall creates or replaces a registration. If restore is set, it also lifts a revocation, and reopens a
	// deleted install like Deletions.Reopen. Otherwise it returns ErrInstallDeleted for a deleted install.
	SetInstall(ctx context.Context, o Owner, r Registration, restore bool, now Moment) (in Install, created bool, err error)

	// RestoreInstall is like SetInstall with restore, but keeps the registration.
	RestoreInstall(ctx context.Context, o Owner, now Moment) error

	// SwapQuota replaces tier and overrides by those in to if they still match those in from, and the install is registered
	// and not deleted. It reports whether it did. Namespaces stay.
	SwapQuota(ctx context.Context, o Owner, from, to Registration, now Moment) (bool, error)

	// RevokeInstall revokes an install, registered or not, unless it is already revoked.
	RevokeInstall(ctx context.Context, o Owner, now Moment) error
}

// ErrNoInstall means that an install is not registered.
var ErrNoInstall error = errcode.New(errcode.NotFound, "install is not registered")

// Access is the namespace access allowed by a token or an operator.
type Access uint8

// Access values: "", "r", "w" and "rw".
const (
	Read   Access = 1 << iota
	Modify        // writes and deletes
)

// MarshalText returns "", r, w or rw, as in tokens.
func (a Access) MarshalText() ([]byte, error) {
	return []byte([...]string{"", "r", "w", "rw"}[a&(Read|Modify)]), nil
}

// UnmarshalText rejects other texts.
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
