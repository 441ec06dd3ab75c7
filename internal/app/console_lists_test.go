package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/rows"
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
	link := regexp.MustCompile(`href="/console/guest/(event\?event=(evt_\w+)&amp;position=\d+)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("no link in\n%s", page)
	}
	event := strings.ReplaceAll(link[1], "&amp;", "&")
	o.want("the event", http.StatusOK, tenant, http.MethodGet, "/console/guest/"+event, nil)
	o.want("another event", http.StatusNotFound, "does not wait any more", http.MethodGet, "/console/guest/"+strings.Replace(event, link[2], "evt_"+url.QueryEscape("<b>"), 1), nil)
	o.want("no position", http.StatusBadRequest, "Position: expected a whole number", http.MethodGet, "/console/guest/event?event="+link[2], nil)
}

// A list of refused sign-ins that is too long for the page says so.
func TestConsoleShowsLatestRefused(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	s := a.opened[slices.IndexFunc(a.opened, func(s *opened) bool { return s.name == "tokenserver" })]
	table := &rows.Table{}
	for _, g := range s.tables {
		for _, t := range g.Tables {
			if t.Name == "refused_sign_ins" {
				table = t
			}
		}
	}
	for n := range 100 {
		if page := o.want("the page", http.StatusOK, "", http.MethodGet, "/console/tokenserver/refused", nil); strings.Contains(page, "refused last") {
			t.Fatalf("%d accounts are not all", n)
		}
		if err := s.rowsOf().Update(t.Context(), func(u rows.Update) error {
			batch := &rows.Batch{}
			defer batch.Free()
			batch.Add(rows.Row{fmt.Sprintf("%032x", n), int64(1), int64(1), int64(1)}.Pack(nil))
			return u.Insert(table, batch)
		}); err != nil {
			t.Fatal(err)
		}
	}
	o.want("the page", http.StatusOK, "These are the 100 accounts that were refused last. To list up to 1000: holdfast sync user list --refused.", http.MethodGet, "/console/tokenserver/refused", nil)
}
