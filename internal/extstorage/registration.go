package extstorage

import (
	"context"

	"holdfast/internal/canonjson"
)

// RegisterInstall registers an install, or changes what is registered as a
// whole, and returns it and whether nothing was before. Overrides without an end
// last for OverrideLifetime. Only restore gives access again to one that is
// revoked.
func (s *Service) RegisterInstall(ctx context.Context, o Owner, r Registration, restore bool) (in Install, created bool, err error) {
	now := s.moment()
	if err := s.checkRegistration(&r, now); err != nil {
		return Install{}, false, err
	}
	defer s.installs.remove(o) // also of an error, which may have come too late
	return s.opts.Installs.SetInstall(ctx, o, r, restore, now)
}

func (s *Service) checkRegistration(r *Registration, now Moment) error {
	if _, known := s.opts.Config.Tiers[r.Tier]; !known && r.Tier != "" {
		return &ValidationError{Pointer: "/tier", Reason: "must be a tier of the setting extstorage.tiers, or empty"}
	}
	v, most := &r.Overrides, now+Moment(OverrideLifetime.Milliseconds())
	switch {
	case v.Until != 0 && v.Until <= now:
		return &ValidationError{Pointer: "/overrides/until", Reason: "must be in the future"}
	case v.Bytes < 0 || v.Namespaces < 0 || v.Keys < 0:
		return &ValidationError{Pointer: "/overrides", Reason: "must not be negative"}
	case v.Quota != Quota{} && v.Until == 0:
		v.Until = most
	case v.Until > most:
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

// ShowInstall is what is registered: ErrNoInstall.
func (s *Service) ShowInstall(ctx context.Context, o Owner) (Install, error) {
	return s.opts.Installs.Install(ctx, o)
}

// RevokeInstall ends all access of an install, registered or not: here at once,
// on other processes within a second. What it has stays.
func (s *Service) RevokeInstall(ctx context.Context, o Owner) error {
	defer s.signals.notify(o)  // who waits for changes has waited for nothing
	defer s.installs.remove(o) // also of an error, which may have come too late
	return s.opts.Installs.RevokeInstall(ctx, o, s.moment())
}
