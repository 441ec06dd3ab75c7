package httpapi

import (
	"net/http"

	ext "holdfast/internal/extstorage"
)

// adminTokens is the path under which operators list the revoked tokens of an
// install or, without one, of a tenant's services. DELETE on a token below it
// revokes the token.
const adminTokens = "/ext/tokens"

// serveTokens serves the paths of revoked tokens.
func (h *Admin) serveTokens(w http.ResponseWriter, r *http.Request, s []string) (err error) {
	var names []string
	var act func(*exchange) error
	x := &exchange{in: r, out: w, service: h.Service}
	method := http.MethodGet
	switch len(s) {
	case 2:
		names, act = []string{"tenant", "install"}, (*exchange).listRevokedTokens
	case 3:
		method, names = http.MethodDelete, []string{"tenant", "install", "expires"}
		act = func(x *exchange) error { return x.revokeToken(s[2]) }
	default:
		return errAdminRoute
	}
	if r.Method != method {
		return methodNotAllowed(w, method)
	}
	if x.query, err = parseQuery(r.URL.RawQuery, names); err != nil {
		return err
	}
	tenant, err := x.query.tenant()
	if err != nil {
		return err
	}
	x.ask.Grant.Owner = ext.Services(tenant)
	if install := x.query.text("install"); install != "" {
		if x.ask.Grant.Owner.Install, err = ext.ParseInstallID(install); err != nil {
			return under("/install", err)
		}
	}
	return x.within(adminTimeout, func() error { return act(x) })
}

func (x *exchange) revokeToken(id string) error {
	var expires ext.Moment
	if text := x.query.text("expires"); text != "" {
		var ok bool
		if expires, ok = parseMoment(text); !ok {
			return invalid("/expires", notMoment)
		}
	}
	if _, err := x.service.RevokeToken(x.ctx(), x.ask.Grant.Owner, id, expires); err != nil {
		return err
	}
	return x.nothing()
}

func (x *exchange) listRevokedTokens() error {
	all, err := x.service.RevokedTokens(x.ctx(), x.ask.Grant.Owner)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, append(appendList([]byte(`{"revoked":`), all, func(b []byte, t *ext.RevokedToken) []byte {
		b = appendString(key(append(b, '{'), "id"), t.ID)
		b = appendMoment(key(b, "revokedAt"), t.RevokedAt)
		return append(appendMoment(key(b, "expiresAt"), t.ExpiresAt), '}')
	}), '}'))
}
