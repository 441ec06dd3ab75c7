package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/clock"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// Admin serves /ext/installs/ and /ext/tenants/ on the admin listener, which has
// already checked the admin token: registrations of installs, and deletion of
// installs and tenants.
type Admin struct {
	Service *ext.Service
	Clock   clock.Clock
}

// OwnsAdmin reports whether a raw path on the admin listener belongs to extension
// storage.
func OwnsAdmin(path string) bool {
	return strings.HasPrefix(path, "/ext/installs/") || strings.HasPrefix(path, adminTenants)
}

// LabelAdmin is Label for the admin listener.
func LabelAdmin(path string) string {
	if strings.HasPrefix(path, adminTenants) {
		return "tenants"
	}
	return "installs"
}

// errAdminRoute means that a path of the admin listener does not exist.
var errAdminRoute = &refusal{http.StatusNotFound, codeNotFound, "", "no such path: expected /ext/installs/INSTALL, /ext/installs/INSTALL/data or /ext/tenants/TENANT/data", fault.NotFound}

// adminTimeout is the timeout of an operator's request.
const adminTimeout = 30 * time.Second

// adminActions maps methods to the actions on an install.
var adminActions = map[string]func(*exchange) error{
	http.MethodGet:    (*exchange).showInstall,
	http.MethodPut:    (*exchange).registerInstall,
	http.MethodDelete: (*exchange).revokeInstall,
}

// Serve is the web.Handler of the admin listener.
func (h *Admin) Serve(w http.ResponseWriter, r *http.Request, at web.Address) (err error) {
	w.Header().Set("Cache-Control", private)
	s, err := web.Segments(at.Path)
	switch {
	case err != nil:
		return errAdminRoute
	case len(s) == 4 && s[3] == "data" || strings.HasPrefix(at.Path, adminTenants):
		return h.serveData(w, r, s)
	}
	if len(s) != 3 || s[0] != "ext" || s[1] != "installs" {
		return errAdminRoute
	}
	act, ok := adminActions[r.Method]
	if !ok {
		return methodNotAllowed(w, slices.Collect(maps.Keys(adminActions))...)
	}
	x := &exchange{in: r, out: w, service: h.Service}
	if x.query, err = parseQuery(r.URL.RawQuery, []string{"tenant"}); err != nil {
		return err
	}
	owner := &x.ask.Grant.Owner
	if owner.Tenant, err = x.query.tenant(); err != nil {
		return err
	}
	if owner.Install, err = ext.ParseInstallID(s[2]); err != nil {
		return under("/install", err)
	}
	if r.Method != http.MethodGet {
		if err := adminPreconditions.check(r.Header); err != nil {
			return err
		}
	}
	if r.Method == http.MethodPut {
		if err := x.hasMedia(typeJSON); err != nil {
			return err
		}
		if x.body, err = x.readBody(schemaBody); err != nil {
			return err
		}
	}
	return x.within(adminTimeout, func() error { return act(x) })
}

func (x *exchange) showInstall() error {
	in, err := x.service.ShowInstall(x.ctx(), x.ask.Grant.Owner)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, x.appendInstall(nil, &in))
}

func (x *exchange) registerInstall() error {
	f := parseFields(x.body, "", "tier", "overrides", "namespaces", "revoked")
	r := ext.Registration{Tier: f.text("tier")}
	if o := f.object("overrides", "bytes", "namespaces", "keys", "until"); o != nil {
		r.Overrides.Bytes = o.integer("bytes", 1, math.MaxInt64).Value
		r.Overrides.Namespaces = o.integer("namespaces", 1, math.MaxInt64).Value
		r.Overrides.Keys = o.integer("keys", 1, math.MaxInt64).Value
		r.Overrides.Until = o.moment("until")
		f.note(o.err)
	}
	if f.has("namespaces") {
		r.Namespaces = f.accesses("namespaces")
	}
	restore := f.has("revoked")
	if f.flag("revoked") {
		f.fail("revoked", "must be false: send DELETE to revoke access")
	}
	if f.err != nil {
		return f.err
	}
	in, created, err := x.service.RegisterInstall(x.ctx(), x.ask.Grant.Owner, r, restore)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return x.answer(status, x.appendInstall(nil, &in))
}

// accesses parses an object of accesses by namespace.
func (f *fields) accesses(name string) map[ext.Namespace]ext.Access {
	raw, _ := f.find(name)
	at := f.at + pointerTo(name)
	v, err := ext.ParseMetadata(raw, spelling*maxText)
	if err != nil {
		f.note(under(at, err))
		return nil
	}
	var words map[string]any
	if json.NewDecoder(bytes.NewReader([]byte(v))).Decode(&words) != nil {
		f.fail(name, notJSON)
		return nil
	}
	all := make(map[ext.Namespace]ext.Access, len(words))
	for ns, word := range words {
		var a ext.Access
		text, ok := word.(string)
		if !ok || a.UnmarshalText([]byte(text)) != nil {
			f.note(invalid(at+pointerTo(ns), `must be "", r, w or rw`))
		}
		all[ext.Namespace(ns)] = a
	}
	return all
}

func (x *exchange) revokeInstall() error {
	if err := x.service.RevokeInstall(x.ctx(), x.ask.Grant.Owner); err != nil {
		return err
	}
	return x.nothing()
}

func (x *exchange) appendInstall(b []byte, in *ext.Install) []byte {
	owner := &x.ask.Grant.Owner
	b = appendString(append(b, `{"tenant":`...), owner.Tenant)
	b = appendString(key(b, "install"), owner.Install)
	b = appendString(key(b, "tier"), in.Tier)
	b = key(b, "overrides")
	if o := &in.Overrides; o.Until == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, '{')
		for _, quota := range []struct {
			name string
			n    int64
		}{{"bytes", o.Bytes}, {"namespaces", o.Namespaces}, {"keys", o.Keys}} {
			if quota.n != 0 {
				b = appendInt(key(b, quota.name), quota.n)
			}
		}
		b = append(appendMoment(key(b, "until"), o.Until), '}')
	}
	b = key(b, "namespaces")
	if in.Namespaces == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, '{')
		for _, ns := range slices.Sorted(maps.Keys(in.Namespaces)) {
			word, _ := in.Namespaces[ns].MarshalText()
			b = appendString(key(b, string(ns)), string(word))
		}
		b = append(b, '}')
	}
	b = appendMoment(key(b, "revokedAt"), in.RevokedAt)
	b = appendMoment(key(b, "createdAt"), in.CreatedAt)
	if d := &in.Deletion; d.StartedAt != 0 {
		b = appendMoment(key(b, "deletingAt"), d.StartedAt)
		b = appendMoment(key(b, "deletedAt"), d.FinishedAt)
	}
	return append(appendMoment(key(b, "updatedAt"), in.UpdatedAt), '}')
}
