//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/inbox"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// operator is a client of the admin listener.
type operator struct {
	t    testing.TB
	base string
}

func (s *server) operator() *operator {
	s.t.Helper()
	// In an hour everything that was published is old.
	r := &guest.Retention{Store: s.service.Store, Clock: func() time.Time { return clock.System().Add(time.Hour) }}
	admin := &httpapi.Admin{Service: s.service, Retention: r}
	return &operator{s.t, webtest.Serve(s.t, web.Service{Serve: admin.Serve, Error: httpapi.WriteError, Route: httpapi.LabelAdmin}, web.Options{}).URL}
}

// want sends a request, expects a status, and decodes the body.
func (o *operator) want(status int, method, path string, into any) {
	o.t.Helper()
	client := described(o.t)
	if strings.HasSuffix(path, "/") { // the description has no empty IDs
		client = http.DefaultClient
	}
	resp, err := client.Do(webtest.Request(o.t, o.base, method, path, nil))
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		o.t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.StatusCode, text, err, status)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(text, into); err != nil {
		o.t.Fatalf("%s: %v", text, err)
	}
}

// events is the body of lists of events.
type events struct {
	Backlog struct{ Events int }
	Events  []httpapi.EventView
	Next    *int64
}

// TestEraseNamesBackups: an erasure lists the known backups that were made since the session began.
func TestEraseNamesBackups(t *testing.T) {
	t.Parallel()
	now := clock.System().UTC().Truncate(time.Second)
	backup := func(name string, at time.Duration) guest.Backup { return guest.Backup{Path: name, At: now.Add(at)} }
	s := newServer(t).at(func(o *guest.Options) {
		o.Backups = func() ([]guest.Backup, error) {
			return []guest.Backup{backup("/later", time.Hour), backup("/earlier", -time.Hour)}, nil
		}
	})
	var e guest.Erased
	s.operator().want(200, http.MethodDelete, "/guest/sessions/"+string(guest.NewID(guest.SessionPrefix, now)), &e)
	suite.Equal(t, "backups", e.Backups, []guest.Backup{backup("/later", time.Hour)})
	failing := s.at(func(o *guest.Options) {
		o.Backups = func() ([]guest.Backup, error) { return nil, errors.New("broken") }
	})
	_, err := failing.service.Erase(t.Context(), string(guest.NewID(guest.SessionPrefix, now)))
	suite.WantFault(t, "backups that cannot be read", err, fault.Unavailable)
}

// TestAdminRefusals: an operator sees how often a handoff was consumed again, in one row with one
// event.
func TestAdminRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, o, r := s.begin(), s.operator(), newReceiver(t, s)
	m := b.mint()
	path, body := "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`
	var none struct{ Refusals []httpapi.RefusalView }
	o.want(200, http.MethodGet, "/guest/refusals", &none)
	suite.Equal(t, "before", len(none.Refusals), 0)
	r.want(200, path, body, "consumedAt", "Idempotency-Key: winner")
	for i := range 20 {
		r.want(409, path, body, `"handoff-consumed"`, "Idempotency-Key: "+itoa(int64(i)))
	}
	var got struct{ Refusals []httpapi.RefusalView }
	o.want(200, http.MethodGet, "/guest/refusals?limit=10", &got)
	if len(got.Refusals) != 1 || string(got.Refusals[0].HandoffID) != m.HandoffID || got.Refusals[0].Reason != guest.ReasonConsumed ||
		got.Refusals[0].Attempts != 20 || got.Refusals[0].Last.Before(got.Refusals[0].First) {
		t.Errorf("%+v", got)
	}
	var page events
	o.want(200, http.MethodGet, "/guest/outbox", &page)
	suspected := slices.DeleteFunc(page.Events, func(e httpapi.EventView) bool { return !strings.HasSuffix(e.Type, "bot_suspected.v1") })
	suite.Equal(t, "events", len(suspected), 1)
	o.want(400, http.MethodGet, "/guest/refusals?limit=0", nil)
	o.want(405, http.MethodPost, "/guest/refusals", nil)
}

// deleted reports how many rows a job has deleted.
func (o *operator) deleted(job guest.Job) int {
	o.t.Helper()
	var v httpapi.JobView
	o.want(200, http.MethodPost, "/guest/jobs/"+string(job)+"/run", &v)
	if v.Deleted == nil {
		o.t.Fatalf("%s: %+v", job, v)
	}
	return *v.Deleted
}

// TestAdminEvents: an operator sees waiting events in pages, and retries and drops those
// that were set aside.
func TestAdminEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, o := s.begin(), s.operator()
	for _, n := range []string{"1", "2", "3"} {
		b.want(201, http.MethodPost, "/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+n+property[1:]+`","source":"list"}`)
	}
	var page events
	o.want(200, http.MethodGet, "/guest/outbox?limit=2", &page)
	if page.Backlog.Events != 3 || len(page.Events) != 2 || page.Next == nil {
		t.Fatalf("%+v", page)
	}
	first := page.Events[0].ID
	o.want(200, http.MethodGet, "/guest/outbox?limit=2&after="+itoa(*page.Next), &page)
	suite.Equal(t, "last page", len(page.Events), 1)

	box := s.service.Store.Outbox()
	waiting, err := box.ListWaiting(t.Context(), 0, 10)
	suite.Must(t, "ListWaiting", err)
	for i := range waiting {
		suite.Must(t, "Refuse", box.Refuse(t.Context(), waiting[i].Event, "poison", func(int) outbox.Decision {
			return outbox.Decision{SetAside: true, At: clock.System()}
		}))
	}
	dead := func() (ids []string) {
		t.Helper()
		var page events
		o.want(200, http.MethodGet, "/guest/dead-letters", &page)
		for _, e := range page.Events {
			suite.Equal(t, "error", e.Error, "poison")
			ids = append(ids, e.ID)
		}
		return ids
	}
	all := dead()
	suite.Equal(t, "set aside", len(all), 3)
	o.want(200, http.MethodPost, "/guest/dead-letters/"+first+"/retry", nil)
	o.want(404, http.MethodPost, "/guest/dead-letters/"+first+"/retry", nil)
	o.want(200, http.MethodDelete, "/guest/dead-letters/"+all[1], nil)
	o.want(404, http.MethodDelete, "/guest/dead-letters/"+all[1], nil)
	suite.Equal(t, "set aside", dead(), all[2:])
	var n map[string]int
	o.want(200, http.MethodPost, "/guest/dead-letters/retry", &n)
	suite.Equal(t, "retried", n, map[string]int{"events": 1})
	o.want(200, http.MethodGet, "/guest/outbox", &page)
	suite.Equal(t, "waiting again", page.Backlog.Events, 2)
	n = nil
	o.want(200, http.MethodDelete, "/guest/dead-letters", &n)
	suite.Equal(t, "dropped", n, map[string]int{"events": 0})

	if _, err := s.service.ReceiveEvent(t.Context(), inbox.Event{Source: "/x", ID: "1", Type: "other", Time: clock.System(), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	var quarantine struct{ Events []httpapi.QuarantineView }
	o.want(200, http.MethodGet, "/guest/quarantine", &quarantine)
	if len(quarantine.Events) != 1 || quarantine.Events[0].ID != "1" {
		t.Errorf("%+v", quarantine)
	}
}

func itoa(n int64) string { text, _ := json.Marshal(n); return string(text) }

// TestAdminRefuses: paths, methods and queries that do not exist.
func TestAdminRefuses(t *testing.T) {
	t.Parallel()
	o := newServer(t).operator()
	for _, path := range []string{
		"/guest/outbox/x", "/guest/dead-letters/", "/guest/dead-letters/x/other", "/guest/jobs/events", "/guest/jobs/other/run", "/guest/sessions", "/guest/sessions/", "/guest/sessions/x/y",
	} {
		o.want(404, http.MethodPost, path, nil)
	}
	o.want(405, http.MethodPost, "/guest/outbox", nil)
	o.want(405, http.MethodDelete, "/guest/dead-letters/retry", nil)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "after=-1", "after=x", "after=", "limit=%"} {
		o.want(400, http.MethodGet, "/guest/outbox?"+query, nil)
		o.want(400, http.MethodGet, "/guest/dead-letters?"+query, nil)
	}
	for _, query := range []string{"dryRun=maybe", "dryRun=", "dryRun=true&dryRun=false"} { // a slip must not delete anything
		o.want(400, http.MethodPost, "/guest/jobs/events/run?"+query, nil)
	}
	o.want(422, http.MethodDelete, "/guest/sessions/gms_x", nil)
	if !slices.ContainsFunc(httpapi.AdminPaths, httpapi.OwnsAdmin) || httpapi.OwnsAdmin("/guest/keys") || httpapi.OwnsAdmin("/guest/outboxes") {
		t.Error("owns other paths")
	}
}

// TestDescriptionOfAdmin: the API description has exactly the paths and methods of Admin.
func TestDescriptionOfAdmin(t *testing.T) {
	t.Parallel()
	d, err := description()
	suite.Must(t, "description", err)
	fill := strings.NewReplacer("{event}", "EVENT", "{job}", "JOB", "{session}", "SESSION")
	methods, o := map[string][]string{}, newServer(t).operator()
	for _, r := range d.Routes() {
		if httpapi.OwnsAdmin(r.Path) {
			methods[fill.Replace(r.Path)] = append(methods[fill.Replace(r.Path)], r.Method)
		}
	}
	suite.Equal(t, "paths", slices.Sorted(maps.Keys(methods)), slices.Sorted(slices.Values(httpapi.AdminPaths)))
	for path, described := range methods {
		resp, err := http.DefaultClient.Do(webtest.Request(t, o.base, http.MethodPatch, path, nil))
		suite.Must(t, "PATCH", err)
		_ = resp.Body.Close()
		suite.Equal(t, path, slices.Sorted(slices.Values(strings.Split(resp.Header.Get("Allow"), ", "))), slices.Sorted(slices.Values(described)))
	}
}

// TestAdminJobs: an operator sees what a job would delete, and runs it.
func TestAdminJobs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, o := s.begin(), s.operator()
	b.want(201, http.MethodPost, "/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+property+`","source":"list"}`)
	b.want(204, http.MethodDelete, "/wishlist/"+property, "")
	var list struct{ Jobs []httpapi.JobView }
	o.want(200, http.MethodGet, "/guest/jobs", &list)
	suite.Equal(t, "jobs", len(list.Jobs), len(guest.Jobs))
	suite.Equal(t, "not old", o.deleted(guest.JobAnswers), 0)

	events, _, err := s.service.Store.Outbox().Next(t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 100, Now: clock.System()})
	suite.Must(t, "Next", err)
	suite.Must(t, "Done", s.service.Store.Outbox().Done(t.Context(), "test", 0, events))
	var v httpapi.JobView
	o.want(200, http.MethodPost, "/guest/jobs/events/run?dryRun=true", &v)
	if v.Old == nil || *v.Old != 2 || v.Deleted != nil {
		t.Errorf("dry run: %+v", v)
	}
	suite.Equal(t, "deleted", o.deleted(guest.JobEvents), 2)
	suite.Equal(t, "deleted again", o.deleted(guest.JobEvents), 0)
}

// TestErase: nothing is left of a session, neither in the database nor in hot state, and its
// handoff cannot be consumed.
func TestErase(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, other, o := s.begin(), s.begin(), s.operator()
	for _, b := range []*browser{b, other} {
		b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`)
		b.want(201, http.MethodPost, "/session/recently-viewed", `{"tenantId":"`+tenant+`","propertyId":"`+property+`"}`)
		b.want(201, http.MethodPost, "/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+property+`","source":"list"}`)
		b.want(200, http.MethodGet, "/wishlist", "", property) // fills the mirror
		b.want(201, http.MethodPost, "/handoff/"+tenant+"/"+property, stay)
	}
	session := func(b *browser) guest.ID { id, _, _ := strings.Cut(b.cookie, "."); return guest.ID(id) }
	search, err := s.service.BeginSearch(t.Context(), session(b), "vienna", json.RawMessage(`{}`))
	suite.Must(t, "BeginSearch", err)

	var e guest.Erased
	o.want(200, http.MethodDelete, "/guest/sessions/"+string(session(b)), &e)
	suite.Equal(t, "erased", e, guest.Erased{Wishes: 1, Handoffs: 1, Answers: 2, Kept: 2, Remains: []string{}, Backups: []guest.Backup{}})
	if _, err := s.service.Search(t.Context(), session(b), search.ID); err == nil {
		t.Error("the search is left")
	}
	for path, want := range map[string]string{"/wishlist": `"items":[]`, "/session/recently-viewed": `"items":[]`, "/handoff": `"items":[]`, "/session": `"preferences":{}`} {
		b.want(200, http.MethodGet, path, "", want)
	}
	other.want(200, http.MethodGet, "/session/recently-viewed", "", property)
	other.want(200, http.MethodGet, "/wishlist", "", property)
	other.want(200, http.MethodGet, "/session", "", "de-AT")
}
