package tenants

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/inbox"
)

// Suspension is a tenant's state after its newest event.
type Suspension struct {
	Tenant    string    // lower-case UUID
	Suspended bool      // false: reinstated
	Reason    string    // for operators; may be empty
	At        time.Time // event time, in microseconds
	Event     string    // ID of the event
}

// NewerThan reports whether s replaces o: the later event time wins, whatever the order of arrival, then the greater
// event ID.
func (s *Suspension) NewerThan(o Suspension) bool {
	if !s.At.Equal(o.At) {
		return s.At.After(o.At)
	}
	return s.Event > o.Event
}

// ErrSuspended refuses requests about a suspended tenant.
var ErrSuspended = errcode.New(errcode.Denied, "the tenant is suspended")

// Store stores tenant states, and the inbox of events that change them. It keeps to the rules of guest.Store about errors,
// slices and concurrency.
type Store interface {
	// Receive applies an event to a tenant's state unless the inbox already knows it. The result is inbox.Stale if
	// the state is newer than the event.
	Receive(ctx context.Context, e inbox.Event, s Suspension) (inbox.Result, error)

	// Quarantine stores an event that cannot be applied.
	Quarantine(ctx context.Context, e inbox.Event, reason string) error

	// Quarantined returns up to limit events in quarantine.
	Quarantined(ctx context.Context, limit int) ([]inbox.Quarantine, error)

	// Suspended reports whether a tenant is suspended. Unknown tenants are not.
	Suspended(ctx context.Context, tenant string) (bool, error)

	// SuspendedTenants returns suspended tenants with IDs above after, ordered by ID: up to limit, or all if limit is
	// 0.
	SuspendedTenants(ctx context.Context, after string, limit int) ([]Suspension, error)

	// TenantStates returns all tenants with an applied event, including reinstated tenants, ordered by ID.
	TenantStates(ctx context.Context) ([]Suspension, error)
}

// Hot caches suspensions. If the copy is lost, ask the database and replace the copy: tenants may still be suspended. It
// keeps to the rules of guest.Hot.
type Hot interface {
	// Suspended returns those of the tenants that are suspended, and whether the copy exists. Without it, suspended is
	// empty and means nothing.
	Suspended(ctx context.Context, tenants []string) (suspended []string, known bool, err error)

	// SuspensionVersion changes with each SetSuspension. Read it before the database, for PutSuspensions.
	SuspensionVersion(ctx context.Context) (version int64, known bool, err error)

	// PutSuspensions replaces the copy, unless the version changed, since the database read may be outdated. all
	// includes reinstated tenants.
	PutSuspensions(ctx context.Context, version int64, all []Suspension) (bool, error)

	// SetSuspension updates a tenant after its event is committed, if s is NewerThan the cached state. If the copy is
	// lost, it only changes the version.
	SetSuspension(ctx context.Context, s Suspension) error
}

// Tenant event types.
const (
	TypeSuspended  = "tenant.suspended.v1"
	TypeReinstated = "tenant.reinstated.v1"
)

// Types are the accepted event types. They must match exactly: another service's type with the same ending is not a
// suspension.
type Types struct {
	Suspended  []string `toml:"suspended_types" doc:"Event types that suspend a tenant."`
	Reinstated []string `toml:"reinstated_types" doc:"Event types that reinstate a tenant."`
}

// DefaultTypes returns the short and long form of each type.
func DefaultTypes() Types {
	return Types{
		Suspended:  []string{TypeSuspended, "melmastoon." + TypeSuspended},
		Reinstated: []string{TypeReinstated, "melmastoon." + TypeReinstated},
	}
}

// Check returns all invalid settings.
func (t *Types) Check() (problems conf.Problems) {
	for name, types := range map[string][]string{"suspended_types": t.Suspended, "reinstated_types": t.Reinstated} {
		if len(types) == 0 || slices.Contains(types, "") {
			problems.Addf(name, "needs at least one type, and no empty type")
		}
	}
	if slices.ContainsFunc(t.Suspended, func(s string) bool { return slices.Contains(t.Reinstated, s) }) {
		problems.Addf("reinstated_types", "must not repeat a type from suspended_types")
	}
	return problems
}

// maxSuspensionReason is in bytes; the rest is not stored.
const maxSuspensionReason = 500

// Parse reads a tenant event: a JSON object with the members tenantId and, optionally, reason.
func (t *Types) Parse(e *inbox.Event) (Suspension, error) {
	s := Suspension{At: e.Time.Truncate(time.Microsecond).UTC(), Event: e.ID}
	switch {
	case slices.Contains(t.Suspended, e.Type):
		s.Suspended = true
	case !slices.Contains(t.Reinstated, e.Type):
		return s, errcode.New(errcode.Invalid, "event type: expected one of guest.suspended_types and guest.reinstated_types")
	}
	var body struct {
		TenantID string `json:"tenantId"`
		Reason   string `json:"reason"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return s, errcode.New(errcode.Invalid, "event data: expected a JSON object with tenantId and reason")
	}
	var ok bool
	if s.Tenant, ok = guest.ParseTenant(body.TenantID); !ok {
		return s, errcode.New(errcode.Invalid, "tenantId in the event data: expected a UUID or tnt_ and a ULID")
	}
	s.Reason = plain(body.Reason, maxSuspensionReason)
	return s, nil
}

// plain cuts a text to maxLength bytes, and removes characters that PostgreSQL cannot store.
func plain(text string, maxLength int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxLength)], "")
}

// Receive quarantines unknown events. After an error, the event must be delivered again.
func (s *Service) Receive(ctx context.Context, e inbox.Event) (inbox.Result, error) {
	e.Time = e.Time.Truncate(time.Microsecond).UTC()
	if err := e.Check(); err != nil {
		return "", err
	}
	state, err := s.opts.Types.Parse(&e)
	if err != nil {
		return inbox.Quarantined, s.opts.Store.Quarantine(ctx, e, errcode.Message(err))
	}
	result, err := s.opts.Store.Receive(ctx, e, state)
	if err == nil && result == inbox.Applied {
		s.copySuspension(ctx, state)
	}
	return result, err
}
