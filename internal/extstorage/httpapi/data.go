package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"time"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// adminTenants is the path under which operators delete a tenant.
const adminTenants = "/ext/tenants/"

// deleteTime is the maximum duration of deleting in one request; later requests
// continue.
const deleteTime = 10 * time.Second

// serveData serves /ext/installs/INSTALL/data and /ext/tenants/TENANT/data: GET
// counts the rows, and DELETE deletes them.
func (h *Admin) serveData(w http.ResponseWriter, r *http.Request, s []string) (err error) {
	if len(s) != 4 || s[0] != "ext" || s[3] != "data" {
		return errAdminRoute
	}
	actions := map[string]func(*exchange) error{http.MethodGet: (*exchange).showData, http.MethodDelete: h.deleteData}
	act, ok := actions[r.Method]
	if !ok {
		return methodNotAllowed(w, slices.Collect(maps.Keys(actions))...)
	}
	x := &exchange{in: r, out: w, service: h.Service}
	tenant, names := s[2], []string(nil)
	if s[1] == "installs" {
		names = append(names, "tenant")
	}
	if r.Method == http.MethodDelete {
		names = append(names, allowMissing)
	}
	if x.query, err = parseQuery(r.URL.RawQuery, names); err != nil {
		return err
	}
	owner := &x.ask.Grant.Owner
	if s[1] == "installs" {
		tenant = x.query.text("tenant")
		if owner.Install, err = ext.ParseInstallID(s[2]); err != nil {
			return under("/install", err)
		}
	}
	if owner.Tenant, err = ext.ParseTenantID(tenant); err != nil {
		return under("/tenant", err)
	}
	if owner.Install == "" {
		*owner = ext.Services(owner.Tenant)
	}
	if r.Method == http.MethodDelete {
		if err := adminPreconditions.check(r.Header); err != nil {
			return err
		}
	}
	return x.within(adminTimeout, func() error { return act(x) })
}

func (x *exchange) showData() error {
	d, err := x.service.DeletionOf(x.ctx(), x.ask.Grant.Owner)
	if err != nil {
		return err
	}
	holds, err := x.service.Holdings(x.ctx(), x.ask.Grant.Owner)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, x.appendDeletion(nil, &d, &holds))
}

// allowMissing is the parameter with which an unknown install or tenant is deleted.
const allowMissing = "allowMissing"

var errUnknownOwner = fault.New(fault.NotFound, "the install or tenant is unknown: it has no data and no registration; check the ID, or delete it anyway with ?allowMissing=true")

// deleteData deletes for at most deleteTime; 202 means that rows remain.
func (h *Admin) deleteData(x *exchange) error {
	missing := x.query.flag(allowMissing)
	if err := x.query.fault(); err != nil {
		return err
	}
	if !missing {
		holds, err := x.service.Holdings(x.ctx(), x.ask.Grant.Owner)
		if err != nil {
			return err
		}
		if known, err := x.service.IsKnown(x.ctx(), x.ask.Grant.Owner, holds); err != nil {
			return err
		} else if !known {
			return errUnknownOwner
		}
	}
	o, by := x.ask.Grant.Owner, ext.Caller{Kind: "admin"}
	until := h.Clock().Add(deleteTime)
	inTime := func(ext.Deletion) bool { return h.Clock().Before(until) }
	var d ext.Deletion
	var err error
	if o == ext.Services(o.Tenant) {
		d, err = x.service.DeleteTenant(x.ctx(), o.Tenant, by, inTime)
	} else {
		d, err = x.service.DeleteInstall(x.ctx(), o, by, inTime)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if d.FinishedAt == 0 {
		status = http.StatusAccepted
	}
	return x.answer(status, x.appendDeletion(nil, &d, nil))
}

// appendDeletion appends the progress of a deletion and, if holds is not nil, the
// remaining rows.
func (x *exchange) appendDeletion(b []byte, d *ext.Deletion, holds *ext.Holdings) []byte {
	o := x.ask.Grant.Owner
	whole := o == ext.Services(o.Tenant)
	b = appendString(append(b, `{"tenant":`...), o.Tenant)
	if !whole {
		b = appendString(key(b, "install"), o.Install)
	}
	state := "active"
	switch {
	case d.FinishedAt != 0:
		state = "deleted"
	case d.StartedAt != 0:
		state = "deleting"
	}
	b = appendString(key(b, "state"), state)
	b = appendMoment(key(b, "startedAt"), d.StartedAt)
	b = appendMoment(key(b, "finishedAt"), d.FinishedAt)
	b = appendHoldings(key(b, "deleted"), &d.Deleted, whole)
	if holds != nil {
		b = appendHoldings(key(b, "present"), holds, whole)
	}
	return append(b, '}')
}

func appendHoldings(b []byte, h *ext.Holdings, whole bool) []byte {
	b = append(b, '{')
	if whole {
		b = appendInt(key(b, "installs"), h.Installs)
	}
	for _, count := range []struct {
		name string
		n    int64
	}{{"records", h.Records}, {"bytes", h.Bytes}, {"schemas", h.Schemas}, {"changes", h.Changes}, {"answers", h.Answers}, {"tokens", h.Tokens}} {
		b = appendInt(key(b, count.name), count.n)
	}
	return append(b, '}')
}
