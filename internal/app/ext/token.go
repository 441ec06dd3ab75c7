package ext

import (
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/ident"
	"holdfast/internal/operate"
)

type tokenRequest struct {
	Owner      ext.Owner // for a service, only the tenant
	Namespaces map[ext.Namespace]ext.Access
	Service    string // service that acts for the tenant's installs; "" for an install
	Schemas    bool
	operate.Lifetime
}

type revocation struct {
	owner   ext.Owner // an install, or ext.Services
	id      string
	expires ext.Moment // 0: unknown
}

func (r *revocation) read(s *Extensions, token string) error {
	c, err := s.tokens.Verify(token, s.deps.Clock())
	if err != nil {
		return errcode.Newf(errcode.Invalid, "the token is not valid, so it need not be revoked: %v", err)
	}
	if c.ID == "" {
		return errcode.New(errcode.Invalid, "the token has no ID (jti) and cannot be revoked: revoke the install, or replace the signing key")
	}
	r.id, r.expires = c.ID, ext.At(c.Ends)+1
	if grant, err := s.opened.ParseGrant(c.Raw); err == nil {
		r.owner = grant.Owner
		return nil
	}
	tenant, _, err := httpapi.ParseServiceClaims(c.Raw)
	r.owner = ext.Services(tenant)
	return err
}

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
