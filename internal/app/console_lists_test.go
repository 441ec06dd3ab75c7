package app

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

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

// TestConsoleDownloads checks that files require the administrator's session: exports contain user data or secrets.
func TestConsoleDownloads(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	o, viewer := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	const keys, place = "/console/guest/keys/export", "tenant=11111111-2222-4333-8444-555555555555&install=aaaaaaaa-2222-4333-8444-555555555555"
	const install = "/console/extstorage/installs/export?" + place
	browse("").want("no session", http.StatusSeeOther, "/console/sign-in?next=guest", http.MethodGet, keys, nil)
	status, body, h := o.do(http.MethodGet, install, nil)
	if status != http.StatusOK || !strings.HasSuffix(body, `{"complete":true,"records":0,"schemas":0}`+"\n") || h.Get("Content-Type") != "application/octet-stream" ||
		h.Get("Content-Disposition") != "attachment; filename=aaaaaaaa-2222-4333-8444-555555555555.ndjson" || h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
		t.Errorf("an export: %d %q %v", status, body, h)
	}
	viewer.want("an export for a viewer", http.StatusForbidden, "Your role may not open this", http.MethodGet, install, nil)
	o.want("a wrong name", http.StatusBadRequest, "Install: must be a UUID", http.MethodGet, "/console/extstorage/installs/export?tenant=11111111-2222-4333-8444-555555555555&install=x", nil)
	viewer.want("secrets for a viewer", http.StatusForbidden, "Your role may not open this", http.MethodGet, keys, nil)
	if strings.Contains(o.want("changes", http.StatusOK, "", http.MethodGet, "/console/changes", nil), "keys/export") {
		t.Error("a download that was refused, or one without secrets, is logged")
	}
	o.want("a key", http.StatusSeeOther, "", http.MethodPost, "/console/guest/keys?do=add", o.form("/console/guest/keys"))
	if status, body, _ := o.do(http.MethodGet, keys, nil); status != http.StatusOK || strings.Count(body, `"secret":"`) != 1 {
		t.Errorf("the keys: %d %q", status, body)
	}
	o.want("changes", http.StatusOK, "keys/export download", http.MethodGet, "/console/changes", nil)
}
