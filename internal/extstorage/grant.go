package extstorage

import (
	"encoding/json"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
)

// Grant is what the bearer of a token may do: in each namespace that is named,
// what is named.
type Grant struct {
	Owner      Owner
	Token      Token // zero: the request has none
	Namespaces map[Namespace]Access

	// Every is access to all namespaces, named or not. No token has it: it is
	// for services that speak for an install.
	Every Access
}

// In is the access to a namespace.
func (g *Grant) In(ns Namespace) Access { return g.Every | g.Namespaces[ns] }

// maxClaims is how long the claims of a token may be in bytes.
const maxClaims = 16 << 10

// ParseGrant reads the claims of a verified token as they stand in it: tenant_id
// and install_id, each a UUID, and ns, an object of accesses by namespace
// ({"settings":"rw","log":"r"}). Claims of other names are not looked at. The
// error is a *ValidationError with the place.
func ParseGrant(claims []byte) (g Grant, err error) {
	canonical, err := ParseMetadata(claims, maxClaims)
	if err != nil {
		return g, refused(err)
	}
	var members map[string]json.RawMessage // a struct would take names in any case
	if err := json.Unmarshal([]byte(canonical), &members); err != nil {
		return g, refuse("is not JSON")
	}
	var tenant, install string
	var access map[string]string
	for name, into := range map[string]any{"tenant_id": &tenant, "install_id": &install, "ns": &access} {
		raw, ok := members[name]
		if !ok || string(raw) == "null" || json.Unmarshal(raw, into) != nil {
			return g, &ValidationError{Pointer: "/" + name, Reason: "is required: " + claimTypes[name]}
		}
	}
	if g.Owner.Tenant, err = ParseTenantID(tenant); err != nil {
		return Grant{}, Under("/tenant_id", err)
	}
	if g.Owner.Install, err = ParseInstallID(install); err != nil {
		return Grant{}, Under("/install_id", err)
	}
	g.Namespaces = make(map[Namespace]Access, len(access))
	for name, word := range access {
		ns, err := ParseNamespace(name)
		var a Access
		if err == nil {
			err = a.UnmarshalText([]byte(word))
		}
		if err != nil {
			return Grant{}, Under(canonjson.Pointer{"ns", name}.String(), err)
		}
		g.Namespaces[ns] = a
	}
	return g, nil
}

// claimTypes are the claims of a grant, and what each must be.
var claimTypes = map[string]string{
	"tenant_id": "a UUID", "install_id": "a UUID", "ns": `an object of access by namespace, such as {"settings":"rw"}`,
}

// refused makes of the error of a parser one that has a place.
func refused(err error) error {
	if fault.Is(err, fault.TooLarge) {
		return refuse("is too large")
	}
	return err
}

// Refusals of what a token would do, all fault.Denied.
var (
	// ErrRevoked is an install whose access an operator has ended.
	ErrRevoked error = fault.New(fault.Denied, "access to this install has been revoked")
	// ErrAccess is a namespace in which the token may do something, but not this.
	ErrAccess error = fault.New(fault.Denied, "the token does not allow this operation on the namespace: reads need r, writes need w, patches, increments and schema changes need rw")
)

// NamespaceDeniedError is a namespace in which a token may do nothing, or an
// operator lets it do nothing.
type NamespaceDeniedError struct{ Namespace Namespace }

func (*NamespaceDeniedError) Error() string { return "the token grants no access to this namespace" }

// FaultCode implements fault.Coder.
func (*NamespaceDeniedError) FaultCode() fault.Code { return fault.Denied }

// Pass is a grant that was held against what is registered of its install.
type Pass struct {
	Grant
	install Install
	reread  time.Time // when what the pass was checked against is to be read again
}

// In is the access to a namespace: the lesser of what the token says and what
// the operator lets it do.
func (p *Pass) In(ns Namespace) Access {
	a := p.Grant.In(ns)
	if p.install.Namespaces != nil {
		a &= p.install.Namespaces[ns]
	}
	return a
}

// need refuses what the pass does not allow: *NamespaceDeniedError, ErrAccess.
func (p *Pass) need(ns Namespace, a Access) error {
	switch has := p.In(ns); {
	case has == 0:
		return &NamespaceDeniedError{ns}
	case has&a != a:
		return ErrAccess
	}
	return nil
}
