package ext

import (
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/ident"
	"holdfast/internal/operate"
)

// tokenRequest is a token to create: for an install with access to namespaces, or for a service.
type tokenRequest struct {
	Owner      ext.Owner // for a service, only the tenant
	Namespaces map[ext.Namespace]ext.Access
	Service    string // service that acts for the tenant's installs; "" for an install
	// Schemas allows a service to register and activate schemas.
	Schemas bool
	operate.Lifetime
}

// revocation is a token to revoke.
type revocation struct {
	owner   ext.Owner // an install, or ext.Services
	id      string
	expires ext.Moment // 0: unknown
}

// read verifies a token and reads its ID and its owner. It refuses a token that is not valid, or that cannot be
// revoked.
func (r *revocation) read(s *Extensions, token string) error {
	c, err := s.tokens.Verify(token, s.deps.Clock())
	if err != nil {
		return errcode.Newf(errcode.Invalid, "the token is not valid, so it need not be revoked: %v", err)
	}
	if c.ID == "" {
		return errcode.New(errcode.Invalid, "the token has no ID (jti) and cannot be revoked: revoke the install, or replace the signing key")
	}
	// A revocation must outlive the token, whose end is exact to the second.
	r.id, r.expires = c.ID, ext.At(c.Ends)+1
	if grant, err := s.opened.ParseGrant(c.Raw); err == nil {
		r.owner = grant.Owner
		return nil
	}
	tenant, _, err := httpapi.ParseServiceClaims(c.Raw)
	r.owner = ext.Services(tenant)
	return err
}

// makeToken signs a token with the server's own key. It reads no database: neither the tenant nor the install need
// exist. The URL is "" if this server does not listen for the token's kind.
func (s *Extensions) makeToken(r tokenRequest) (t tokenOutput, err error) {
	if _, err := s.ready(); err != nil {
		return t, err
	}
	d := s.deps
	if err := r.Within(s.cfg.TokenMaxLifetime, Name+".token_max_lifetime"); err != nil {
		return t, err
	}
	if d.Unsaved[tokenSecret] {
		return t, errcode.New(errcode.Invalid, "the secrets file has no token key: start the server once to add it")
	}
	t.ID = ident.New()
	claims := map[string]any{"tenant_id": r.Owner.Tenant, "jti": t.ID}
	if r.Service != "" {
		if !httpapi.ValidService(r.Service) {
			return t, &operate.InputError{Input: "service", Reason: "invalid name: expected 1 to 64 characters from a-z, 0-9 and -"}
		}
		claims["service"] = r.Service
		if r.Schemas {
			claims["schemas"] = true
		}
		if listen := d.Server.InternalListen; listen != "" {
			t.URL = d.Server.Scheme + "://" + listen + "/internal/ext-storage/install/"
		}
	} else {
		claims["install_id"], claims["ns"] = r.Owner.Install, r.Namespaces
		t.URL = d.Server.Address(d.Server.Listen) + "/ext/v1/installs/" + string(r.Owner.Install)
	}
	now := d.Clock()
	t.Expires = now.Add(r.TTL).Truncate(time.Second).UTC()
	t.Token, err = s.tokens.Sign(claims, now, r.TTL)
	return t, err
}
