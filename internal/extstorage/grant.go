package extstorage

import (
	"encoding/json"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// Grant is what a token allows: accesses by namespace.
type Grant struct {
	Owner      Owner
	Token      Token // zero: the request has no token
	Namespaces map[Namespace]Access

	// Every is access to all namespaces. No token has it: it is for services that
	// act for an install.
	Every Access
}

// In returns the access to a namespace.
func (g *Grant) In(ns Namespace) Access { return g.Every | g.Namespaces[ns] }

// maxClaims is the maximum length of a token's claims in bytes.
const maxClaims = 16 << 10

// ParseGrant parses the claims of a verified token: tenant_id and install_id, each
// a UUID, and ns, an object of accesses by namespace
// ({"settings":"rw","log":"r"}). It ignores other claims. The error is a
// *ValidationError with the location.
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

// claimTypes maps the claims of a grant to their expected types.
var claimTypes = map[string]string{
	"tenant_id": "a UUID", "install_id": "a UUID", "ns": `an object of access by namespace, such as {"settings":"rw"}`,
}

// refused converts an error of a parser to one that has a location.
func refused(err error) error {
	if errcode.Is(err, errcode.TooLarge) {
		return refuse("is too large")
	}
	return err
}

// Errors for operations that a token does not allow, all errcode.Denied.
var (
	// ErrRevoked means that an operator has revoked the install's access.
	ErrRevoked error = errcode.New(errcode.Denied, "access to this install has been revoked")
	// ErrAccess means that the token allows some access to the namespace, but not
	// this operation.
	ErrAccess error = errcode.New(errcode.Denied, "the token does not allow this operation on the namespace: reads need r, writes need w, patches, increments and schema changes need rw")
)

// NamespaceDeniedError means that the token, or an operator, allows no access to
// the namespace.
type NamespaceDeniedError struct{ Namespace Namespace }

func (*NamespaceDeniedError) Error() string { return "the token grants no access to this namespace" }

// ErrorCode implements errcode.Coder.
func (*NamespaceDeniedError) ErrorCode() errcode.Code { return errcode.Denied }

// Pass is a grant that was checked against the registration of its install.
type Pass struct {
	Grant
	install Install
	reread  time.Time // when the registration must be read again
}

// In returns the access to a namespace: the intersection of what the token and the
// operator allow.
func (p *Pass) In(ns Namespace) Access {
	a := p.Grant.In(ns)
	if p.install.Namespaces != nil {
		a &= p.install.Namespaces[ns]
	}
	return a
}

// need returns *NamespaceDeniedError or ErrAccess if the pass does not allow the
// access.
func (p *Pass) need(ns Namespace, a Access) error {
	switch has := p.In(ns); {
	case has == 0:
		return &NamespaceDeniedError{ns}
	case has&a != a:
		return ErrAccess
	}
	return nil
}
