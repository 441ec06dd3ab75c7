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

// Suspension is what the newest event about a tenant says. No handoff to a suspended
// tenant is minted or consumed.
type Suspension struct {
	Tenant    string // UUID in lower case
	Suspended bool   // false: it was reinstated
	Reason    string
	At        time.Time // of the event, to the microsecond
	Event     string    // its ID
}

// NewerThan reports whether s replaces another state of the tenant: the event with the
// later time does, whatever the order of their arrival. Of events with one time it is
// the one with the greater ID.
func (s *Suspension) NewerThan(o Suspension) bool {
	if !s.At.Equal(o.At) {
		return s.At.After(o.At)
	}
	return s.Event > o.Event
}

// ErrSuspended refuses requests that involve a suspended tenant.
var ErrSuspended = errcode.New(errcode.Denied, "the tenant is suspended")

// Store has the states of tenants, and the inbox of the events that change them.
type Store interface {
	// Receive applies an event to the state of a tenant, if the inbox does not know it and
	// it is newer than the state. The result is inbox.Stale if the state is newer.
	Receive(ctx context.Context, e inbox.Event, s Suspension) (inbox.Result, error)

	// Quarantine stores an event that cannot be applied.
	Quarantine(ctx context.Context, e inbox.Event, reason string) error

	// Quarantined returns at most limit events in quarantine, the last one first.
	Quarantined(ctx context.Context, limit int) ([]inbox.Quarantine, error)

	// Suspended reports whether a tenant is suspended.
	Suspended(ctx context.Context, tenant string) (bool, error)

	// SuspendedTenants returns the suspended tenants with greater IDs than after, ordered by ID: at most limit, or all
	// if limit is 0.
	SuspendedTenants(ctx context.Context, after string, limit int) ([]Suspension, error)

	// TenantStates returns the states of all tenants that an event was applied to, those of
	// reinstated tenants included, ordered by ID.
	TenantStates(ctx context.Context) ([]Suspension, error)
}

// Hot is a copy of the suspended tenants. A copy that is lost never means that
// nobody is suspended: then the database must be asked, and the copy replaced.
type Hot interface {
	// Suspended returns the suspended ones among the tenants. known is false if the copy
	// is lost.
	Suspended(ctx context.Context, tenants []string) (suspended []string, known bool, err error)

	// SuspensionVersion returns a number that changes with each call of SetSuspension, and
	// whether there is a copy. Read it before the database, for PutSuspensions.
	SuspensionVersion(ctx context.Context) (version int64, known bool, err error)

	// PutSuspensions replaces the copy. It does nothing and returns false if the version has
	// changed: what was read from the database may be old. The states of reinstated tenants
	// are part of all.
	PutSuspensions(ctx context.Context, version int64, all []Suspension) (bool, error)

	// SetSuspension changes one tenant after its event is committed, if it is NewerThan the
	// state in the copy. If the copy is lost it only changes the version.
	SetSuspension(ctx context.Context, s Suspension) error
}

// Types of the events about tenants.
const (
	TypeSuspended  = "tenant.suspended.v1"
	TypeReinstated = "tenant.reinstated.v1"
)

// Types are the types of the events that the service understands, each as it arrives:
// an event of another service whose type only ends so is not about a suspension. They are
// part of the section [guest].
type Types struct {
	Suspended  []string `toml:"suspended_types" doc:"Types of the received events that suspend a tenant."`
	Reinstated []string `toml:"reinstated_types" doc:"Types of the received events that reinstate a tenant."`
}

// DefaultTypes returns the short and the long form of each.
func DefaultTypes() Types {
	return Types{
		Suspended:  []string{TypeSuspended, "melmastoon." + TypeSuspended},
		Reinstated: []string{TypeReinstated, "melmastoon." + TypeReinstated},
	}
}

// Check reports every invalid setting.
func (t *Types) Check() (problems conf.Problems) {
	for name, types := range map[string][]string{"suspended_types": t.Suspended, "reinstated_types": t.Reinstated} {
		if len(types) == 0 || slices.Contains(types, "") {
			problems.Addf(name, "must have at least one type, and none that is empty")
		}
	}
	if slices.ContainsFunc(t.Suspended, func(s string) bool { return slices.Contains(t.Reinstated, s) }) {
		problems.Addf("reinstated_types", "must not have a type of suspended_types")
	}
	return problems
}

// maxSuspensionReason is the number of bytes of a reason that are kept.
const maxSuspensionReason = 500

// Parse reads an event about a tenant. Its body is a JSON object with the members tenantId and
// reason; reason may be missing.
func (t *Types) Parse(e *inbox.Event) (Suspension, error) {
	s := Suspension{At: e.Time.Truncate(time.Microsecond).UTC(), Event: e.ID}
	switch {
	case slices.Contains(t.Suspended, e.Type):
		s.Suspended = true
	case !slices.Contains(t.Reinstated, e.Type):
		return s, errcode.New(errcode.Invalid, "type of the event: expected one of guest.suspended_types and guest.reinstated_types")
	}
	var body struct {
		TenantID string `json:"tenantId"`
		Reason   string `json:"reason"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return s, errcode.New(errcode.Invalid, "data of the event: expected a JSON object with tenantId and reason")
	}
	var ok bool
	if s.Tenant, ok = guest.ParseTenant(body.TenantID); !ok {
		return s, errcode.New(errcode.Invalid, "tenantId in the data of the event: expected a UUID or tnt_ and a ULID")
	}
	s.Reason = plain(body.Reason, maxSuspensionReason)
	return s, nil
}

// plain returns the beginning of a text, without what PostgreSQL cannot store.
func plain(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Receive receives an event about a tenant. Events that cannot be understood are put
// into quarantine. An error means that the event should be delivered again.
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
