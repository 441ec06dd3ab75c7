package ext

import (
	"time"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// tokenRequest is what `holdfast ext token` asks for.
type tokenRequest struct {
	Owner      ext.Owner                    // of a service, only the tenant
	Namespaces map[ext.Namespace]ext.Access // of an install
	Service    string                       // that speaks for installs of the tenant; "" for an install itself
	TTL        time.Duration
}

// token is what it prints.
type token struct {
	Token   string    `json:"token"`
	ID      string    `json:"id"` // by which the audit tells tokens apart
	Expires time.Time `json:"expires"`
	URL     string    `json:"url,omitempty"` // where it is good; "" when this server has no internal listener
}

// makeToken makes a token of an install, or of a service.
func (s *Extensions) makeToken(r tokenRequest) (t token, err error) {
	d := s.deps
	if d.Unsaved[tokenSecret] {
		return t, fault.New(fault.Invalid, "the secrets file has no key for tokens yet: start the server of this release once")
	}
	t.ID = ident.New()
	claims := map[string]any{"tenant_id": r.Owner.Tenant, "jti": t.ID}
	if r.Service != "" {
		if !httpapi.ValidService(r.Service) {
			return t, fault.New(fault.Invalid, "the name of a service has 1 to 64 characters of a-z, 0-9 and -")
		}
		claims["service"] = r.Service
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
