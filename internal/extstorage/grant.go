package extstorage

import (
	"encoding/json"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// Grant is a token's access by namespace.
type Grant struct {
	Owner      Owner
	Token      Token                // zero if there is no token
	Namespaces map[Namespace]Access // access by namespace; missing means none. Shared: nobody changes it

	// Every is access to all namespaces, for services. Client tokens never contain it.
	Every Access
}

// In returns the access to a namespace.
func (g *Grant) In(ns Namespace) Access { return g.Every | g.Namespaces[ns] }

const maxClaims = 16 << 10 // bytes

// ParseGrant parses a verified token's claims: UUIDs tenant_id and install_id, and ns, access by namespace
// ({"settings":"rw","log":"r"}). The error is a *ValidationError.
func ParseGrant(claims []byte) (g Grant, err error) {
	canonical, err := ParseMetadata(claims, maxClaims)
	if err != nil {
		return g, refused(err)
	}
	var members map[string]json.RawMessage // a struct would match names case-insensitively
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

// claimTypes says for errors which type a claim must have.
var claimTypes = map[string]string{
	"tenant_id": "a UUID", "install_id": "a UUID", "ns": `an object with access by namespace, e.g. {"settings":"rw"}`,
}

// refused hides the limit of a claim that is too large, which a client cannot change.
func refused(err error) error {
	if errcode.Is(err, errcode.TooLarge) {
		return refuse("is too large")
	}
	return err
}

// Access errors, all errcode.Denied.
var (
	// ErrRevoked means that an operator revoked the install.
	ErrRevoked error = errcode.New(errcode.Denied, "access to this install has been revoked")
	// ErrAccess means that the token allows other access to the namespace, but not this operation.
	ErrAccess error = errcode.New(errcode.Denied, "the token does not allow this operation on the namespace: reads need r, writes need w, patches, increments and schema changes need rw")
)

// NamespaceDeniedError means that the token or an operator allows no access to the namespace.
type NamespaceDeniedError struct{ Namespace Namespace }

func (*NamespaceDeniedError) Error() string { return "the token grants no access to this namespace" }

// ErrorCode returns errcode.Denied.
func (*NamespaceDeniedError) ErrorCode() errcode.Code { return errcode.Denied }

// Pass is a grant checked against the install's registration.
type Pass struct {
	Grant
	install Install
	reread  time.Time // when to read the registration again
}

// In returns the access that both token and operator allow.
func (p *Pass) In(ns Namespace) Access {
	a := p.Grant.In(ns)
	if p.install.Namespaces != nil {
		a &= p.install.Namespaces[ns]
	}
	return a
}

// need returns *NamespaceDeniedError without any access to the namespace, and ErrAccess if some is missing.
func (p *Pass) need(ns Namespace, a Access) error {
	switch has := p.In(ns); {
	case has == 0:
		return &NamespaceDeniedError{ns}
	case has&a != a:
		return ErrAccess
	}
	return nil
}
