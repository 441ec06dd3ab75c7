package app

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// An event that is not published yet can be inspected.
func TestConsoleShowsEvent(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS=http://127.0.0.1:1/")
	o := browse(a.Config().Server.AdminToken.Reveal())
	const tenant = "11111111-2222-4333-8444-555555555555"
	client, cookie := a.mainHandler(), ""
	for _, one := range []struct{ path, body string }{{"session", ""}, {"wishlist", `{"tenantId":"` + tenant + `","propertyId":"22222222-2222-4333-8444-555555555555","source":"map"}`}} {
		r, w := httptest.NewRequest(http.MethodPost, "/bff/consumer/v1/"+one.path, strings.NewReader(one.body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "a")
		r.Header.Set("Cookie", cookie)
		if client.ServeHTTP(w, r); w.Code >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", one.path, w.Code, w.Body)
		}
		cookie, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
	}
	page := o.want("the outbox", http.StatusOK, "evt_", http.MethodGet, "/console/guest/outbox", nil)
	link := regexp.MustCompile(`href="/console/guest/(outbox/show\?event=(evt_\w+))"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("no link in\n%s", page)
	}
	event := strings.ReplaceAll(link[1], "&amp;", "&")
	o.want("the event", http.StatusOK, tenant, http.MethodGet, "/console/guest/"+event, nil)
	o.want("another event", http.StatusNotFound, "does not wait any more", http.MethodGet, "/console/guest/"+strings.Replace(event, link[2], "evt_"+url.QueryEscape("<b>"), 1), nil)
	o.want("no event", http.StatusBadRequest, "Event: must not be empty", http.MethodGet, "/console/guest/outbox/show", nil)
	o.want("no position", http.StatusBadRequest, "After: expected a whole number", http.MethodGet, "/console/guest/outbox?after=x", nil)
}

// The overview counts audit events that are not published.
func TestConsoleCountsAudit(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	const place = "tenant=11111111-2222-4333-8444-555555555555&install=aaaaaaaa-2222-4333-8444-555555555555"
	backlog := func(want string) {
		t.Helper()
		page := o.want("the overview", http.StatusOK, "", http.MethodGet, "/console/", nil)
		if !regexp.MustCompile(`Audit events to publish</td><td[^>]*>` + want + `<`).MatchString(page) {
			t.Errorf("not %s in\n%s", want, page)
		}
	}
	backlog("0 events")
	for _, action := range []string{"revoke", "delete", "restore", "delete"} {
		form := o.form("/console/", "return-to", place)
		for pair := range strings.SplitSeq(place, "&") {
			name, value, _ := strings.Cut(pair, "=")
			form.Set(name, value)
		}
		o.want(action, http.StatusSeeOther, "", http.MethodPost, "/console/extstorage/installs?do="+action, form)
	}
	backlog("[1-9] events?")
}
