package extstorage

import (
	"cmp"
	"context"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// RegisterInstall reports whether it created the registration. It lifts a revocation only if restore is set.
func (s *Service) RegisterInstall(ctx context.Context, o Owner, r Registration, restore bool) (in Install, created bool, err error) {
	now := s.moment()
	if err := s.checkRegistration(&r, now); err != nil {
		return Install{}, false, err
	}
	defer s.installs.remove(o)
	return s.opts.Installs.SetInstall(ctx, o, r, restore, now)
}

// checkRegistration validates a registration, and sets the end of overrides if it is missing.
func (s *Service) checkRegistration(r *Registration, now Moment) error {
	if _, known := s.config.Load().Tiers[r.Tier]; !known && r.Tier != "" {
		return &ValidationError{Pointer: "/tier", Reason: "must be a tier from the setting extstorage.tiers, or empty"}
	}
	v, latest := &r.Overrides, now+Moment(OverrideLifetime.Milliseconds())
	switch {
	case v.Until != 0 && v.Until <= now:
		return &ValidationError{Pointer: "/overrides/until", Reason: "must be in the future"}
	case v.Bytes < 0 || v.Namespaces < 0 || v.Keys < 0:
		return &ValidationError{Pointer: "/overrides", Reason: "must not be negative"}
	case v.Quota != Quota{} && v.Until == 0:
		v.Until = latest
	case v.Until > latest:
		return &ValidationError{Pointer: "/overrides/until", Reason: "must be at most 14 days in the future"}
	case v.Until != 0 && v.Quota == Quota{}:
		return &ValidationError{Pointer: "/overrides", Reason: "must contain bytes, namespaces or keys in addition to until"}
	}
	for ns := range r.Namespaces {
		if _, err := ParseNamespace(string(ns)); err != nil {
			return Under(canonjson.Pointer{"namespaces", string(ns)}.String(), err)
		}
	}
	return nil
}

// QuotaChange changes tier and overrides. Zero fields leave the setting unchanged.
type QuotaChange struct {
	Tier      string
	Overrides Overrides
	Reset     bool // remove tier and overrides first
}

// of returns the registration after the change. Expired overrides do not come back.
func (c *QuotaChange) of(r Registration, now Moment) Registration {
	if c.Reset {
		r.Tier = ""
	}
	if c.Reset || r.Overrides.Until.Reached(now) {
		r.Overrides = Overrides{}
	}
	own := &r.Overrides
	r.Tier = cmp.Or(c.Tier, r.Tier)
	own.Bytes, own.Namespaces, own.Keys = cmp.Or(c.Overrides.Bytes, own.Bytes), cmp.Or(c.Overrides.Namespaces, own.Namespaces), cmp.Or(c.Overrides.Keys, own.Keys)
	own.Until = cmp.Or(c.Overrides.Until, own.Until)
	return r
}

// ChangeQuota changes an install's tier and overrides, and keeps concurrent changes to other settings.
func (s *Service) ChangeQuota(ctx context.Context, o Owner, c QuotaChange) (Install, error) {
	defer s.installs.remove(o)
	const attempts = 10 // an attempt fails only if another change succeeds
	for range attempts {
		in, err := s.opts.Installs.Install(ctx, o)
		if err != nil {
			return Install{}, err
		}
		if in.Deletion.StartedAt != 0 {
			return Install{}, ErrInstallDeleted
		}
		now := s.moment()
		to := c.of(in.Registration, now)
		checked := to
		if c.Tier == "" { // an unchanged tier may be missing from the configuration
			checked.Tier = ""
		}
		if err := s.checkRegistration(&checked, now); err != nil {
			return Install{}, err
		}
		to.Overrides = checked.Overrides
		if done, err := s.opts.Installs.SwapQuota(ctx, o, in.Registration, to, now); err != nil {
			return Install{}, err
		} else if done {
			return s.opts.Installs.Install(ctx, o)
		}
	}
	return Install{}, errcode.New(errcode.Conflict, "others are changing the install's quota: try again")
}

// ShowInstall returns ErrNoInstall for an install that is not registered.
func (s *Service) ShowInstall(ctx context.Context, o Owner) (Install, error) {
	return s.opts.Installs.Install(ctx, o)
}

// RestoreInstall lifts a revocation, or lets a deleted install start again. See Installs.
func (s *Service) RestoreInstall(ctx context.Context, o Owner) error {
	defer s.installs.remove(o)
	return s.opts.Installs.RestoreInstall(ctx, o, s.moment())
}

// RevokeInstall takes effect immediately in this process, and within a second in others.
func (s *Service) RevokeInstall(ctx context.Context, o Owner) error {
	defer s.signals.notify(o) // wake waiting clients, which then lose access
	defer s.installs.remove(o)
	return s.opts.Installs.RevokeInstall(ctx, o, s.moment())
}
