//test:unraced it takes a minute with the race detector, which make soak PART=race uses

package guest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	app "holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/web/webtest"
)

const (
	tenant   = "33333333-2222-4333-8444-555555555555"
	property = "22222222-2222-4333-8444-555555555555"
)

type operator struct {
	t *testing.T
	*servicetest.Operator

	main       string
	tenants    *tenants.Service
	outbox     outbox.Retaining
	file       string
	later      *atomic.Int64
	operations []operate.Operation
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	testdb.SQLite(t)
	later, opened := &atomic.Int64{}, app.New()
	s := opened.Service()
	server := servicetest.Open(t, s, func(d *service.Deps) {
		d.Clock = func() time.Time { return clock.System().Add(time.Duration(later.Load())) }
	})
	main := httptest.NewServer(server.Handler(service.Main))
	t.Cleanup(main.Close)
	tenants, box := opened.Parts()
	return &operator{
		t: t, Operator: servicetest.NewOperator(t, s, "../../guest/httpapi/openapi.json"), main: main.URL, tenants: tenants, outbox: box, file: server.Databases[0].Target.Path, later: later, operations: s.Operations,
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send checks that the response contains no secret.
func (o *operator) send(status int, method, path, body string) string {
	o.t.Helper()
	text := o.Send(status, method, "/guest/"+path, body).Text
	if strings.Contains(text, "ecret") {
		o.t.Fatalf("%s %s: %s", method, path, text)
	}
	return text
}

func get[T any](o *operator, path string) (v T) {
	o.t.Helper()
	must(o.t, json.Unmarshal([]byte(o.send(200, http.MethodGet, path, "")), &v))
	return v
}

func (o *operator) visit() (session string, send func(method, path, body string)) {
	o.t.Helper()
	jar, err := cookiejar.New(nil)
	must(o.t, err)
	client, n := &http.Client{Jar: jar}, 0
	send = func(method, path, body string) {
		o.t.Helper()
		n++
		r := webtest.Request(o.t, o.main, method, "/bff/consumer/v1"+path, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(r)
		must(o.t, err)
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
			o.t.Fatalf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
	}
	send(http.MethodPost, "/session", "")
	at, err := url.Parse(o.main + "/bff/consumer/v1/session")
	must(o.t, err)
	session, _, _ = strings.Cut(jar.Cookies(at)[0].Value, ".")
	return session, send
}

func wish(send func(method, path, body string), n int) {
	send(http.MethodPost, "/wishlist", fmt.Sprintf(`{"tenantId":%q,"propertyId":"%d%s","source":"list"}`, tenant, n, property[1:]))
}

// TestTenantKeys also checks that no operation shows a secret.
func TestTenantKeys(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	type key struct{ TenantID, ID, State string }
	post := func(status int, path string) (k key) {
		t.Helper()
		_ = json.Unmarshal([]byte(o.send(status, http.MethodPost, "tenant-keys/"+path, "")), &k)
		return k
	}
	list := func() (all []key) {
		t.Helper()
		return get[struct{ Keys []key }](o, "tenant-keys").Keys
	}
	states := func() (all []string) {
		for _, k := range list() {
			all = append(all, k.State)
		}
		slices.Sort(all)
		return all
	}
	post(404, tenant+"/rotate")
	post(422, "x/create")
	first := post(201, tenant+"/create")
	if again := post(201, tenant+"/create"); again != first || first.TenantID != tenant || first.State != "active" {
		t.Errorf("%v, %v", first, again)
	}
	next := list()[slices.IndexFunc(list(), func(k key) bool { return k.State == "next" })]
	post(409, tenant+"/rotate")
	o.later.Store(int64(20 * time.Minute))
	if k := post(200, tenant+"/rotate"); k.ID != next.ID || k.State != "active" {
		t.Errorf("%v, want %v", k, next)
	}
	if got := states(); !slices.Equal(got, []string{"active", "next", "verify-only"}) {
		t.Errorf("rotated: %v", got)
	}
	o.later.Store(int64(time.Hour))
	post(200, tenant+"/rotate")
	if got := states(); !slices.Equal(got, []string{"active", "next", "retired", "verify-only"}) {
		t.Errorf("rotated again: %v", got)
	}
	if k := post(200, next.ID+"/revoke"); k.State != "retired" {
		t.Errorf("%v", k)
	}
	post(409, next.ID+"/revoke")
	post(404, "missing/revoke")
	o.send(404, http.MethodPost, "keys/"+list()[0].ID+"/revoke", "") // not an HMAC key
	page := get[struct {
		Keys []key
		Next string
	}](o, "tenant-keys?limit=3")
	rest := get[struct{ Keys []key }](o, "tenant-keys?limit=3&after="+url.QueryEscape(page.Next))
	if len(page.Keys) != 3 || len(rest.Keys) != 1 {
		t.Errorf("pages %v, %v", page, rest)
	}
}

// TestHandoffKeys checks that only an export contains secrets.
func TestHandoffKeys(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	post := func(status int, path string) (key struct{ ID, State string }) {
		t.Helper()
		_ = json.Unmarshal([]byte(o.send(status, http.MethodPost, "keys"+path, "")), &key)
		return key
	}
	first := post(200, "/rotate")
	second := post(201, "")
	if first.State != "active" || second.State != "verify-only" {
		t.Errorf("%v, %v", first, second)
	}
	post(409, "/"+first.ID+"/retire")
	if k := post(200, "/"+second.ID+"/activate"); k.State != "active" {
		t.Errorf("%v", k)
	}
	if k := post(200, "/"+first.ID+"/retire"); k.State != "retired" {
		t.Errorf("%v", k)
	}
	exported := strings.Split(o.Send(200, http.MethodGet, "/guest/keys/export", "").Text, "\n")
	var key struct{ ID, Secret string }
	if err := json.Unmarshal([]byte(exported[0]), &key); err != nil || len(exported) != 1 || key.ID != second.ID || len(key.Secret) < 40 {
		t.Errorf("exported are %q, %v", exported, err)
	}
	if list := o.send(200, http.MethodGet, "keys", ""); strings.Contains(list, key.Secret) || strings.Contains(list, "ecret") {
		t.Errorf("a secret is in %s", list)
	}
	post(404, "/missing/revoke")
	post(404, "/"+first.ID+"/other")
	post(200, "/"+second.ID+"/revoke")
	post(200, "/revoke-all")
	o.send(405, http.MethodDelete, "keys/rotate", "")
	if list := o.send(200, http.MethodGet, "keys", ""); !strings.Contains(list, first.ID) {
		t.Errorf("no %s in %s", first.ID, list)
	}
}

func TestServiceTokens(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for _, body := range []string{`{"service":"booking"}`, `{"service":"booking","tenant":"` + tenant + `","ttl":"720h"}`, `{"service":"tenants","events":true}`} {
		var out struct{ Token string }
		if text := o.send(201, http.MethodPost, "tokens/create", body); json.Unmarshal([]byte(text), &out) != nil || strings.Count(out.Token, ".") != 2 {
			t.Errorf("%s: %s", body, text)
		}
	}
	for body, part := range map[string]string{
		``:                                "service: must be 1 to 64 characters",
		`{"service":"Booking"}`:           "service: must be 1 to 64 characters",
		`{"service":"a","tenant":"x"}`:    "tenant: must be a UUID",
		`{"service":"a","ttl":"0s"}`:      "ttl: must be from 1s to ",
		`{"service":"a","ttl":"2161h"}`:   "ttl: must be from 1s to ",
		`{"service":"a","ttl":"forever"}`: "ttl: expected a duration",
		`{"service":"a","events":true,"tenant":"` + tenant + `"}`: "tenant: must not be given with events",
	} {
		if text := o.send(422, http.MethodPost, "tokens/create", body); !strings.Contains(text, part) {
			t.Errorf("%s: %s, want %s", body, text, part)
		}
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if text := o.send(200, http.MethodPost, "tenants/"+tenant+"/suspend", `{"reason":"unpaid"}`); text != `{"tenantId":"`+tenant+`","suspended":true}` {
		t.Error(text)
	}
	if text := o.send(200, http.MethodGet, "tenants", ""); !strings.Contains(text, `{"tenantId":"`+tenant+`","reason":"unpaid",`) {
		t.Error(text)
	}
	o.send(200, http.MethodPost, "tenants/"+tenant+"/reinstate", "")
	if text := o.send(200, http.MethodGet, "tenants", ""); text != `{"next":null,"tenants":[]}` {
		t.Error(text)
	}
	if text := o.send(422, http.MethodPost, "tenants/x/suspend", ""); !strings.Contains(text, `"detail":"tenant: expected a UUID, or tnt_ and a ULID"`) {
		t.Error(text)
	}
	o.send(422, http.MethodPost, "tenants/"+tenant+"/suspend", `{"reason":1}`)
	o.send(422, http.MethodPost, "tenants/"+tenant+"/suspend", `{"why":"unpaid"}`)
}

type event struct {
	ID, Key, Error        string
	Attempts              int
	Payload, Headers      json.RawMessage
	NextAttempt, SetAside time.Time
}

type events struct {
	Backlog *struct {
		Events int
		Oldest time.Time
	}
	Events []event
	Next   *int64
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if text := o.send(200, http.MethodGet, "outbox", ""); text != `{"backlog":{"events":0},"events":[],"next":null}` {
		t.Error(text)
	}
	session, send := o.visit()
	for n := range 3 {
		wish(send, n)
	}
	page := get[events](o, "outbox?limit=2")
	if page.Backlog.Events != 3 || page.Backlog.Oldest.IsZero() || len(page.Events) != 2 || page.Next == nil || page.Events[0].Key != session {
		t.Fatalf("%+v", page)
	}
	second := page.Events[1]
	if page = get[events](o, fmt.Sprint("outbox?limit=2&after=", *page.Next)); len(page.Events) != 1 || page.Next != nil {
		t.Errorf("the last page: %+v", page)
	}
	if one := get[event](o, "outbox/"+second.ID); one.ID != second.ID || !strings.Contains(string(one.Payload), "1"+property[1:]) || !strings.Contains(string(one.Headers), "{") {
		t.Errorf("%+v", one)
	}
	if text := o.send(404, http.MethodGet, "outbox/evt_x", ""); !strings.Contains(text, "does not wait any more") {
		t.Error(text)
	}
	o.publish(second.ID)
	o.send(404, http.MethodGet, "outbox/"+second.ID, "")
}

func (o *operator) publish(id string) {
	o.t.Helper()
	waiting, err := o.outbox.ListWaiting(o.t.Context(), 0, 10)
	must(o.t, err)
	i := slices.IndexFunc(waiting, func(e outbox.WaitingEvent) bool { return e.Name == id })
	must(o.t, o.outbox.Done(o.t.Context(), "test", 0, []outbox.Event{waiting[i].Event}))
}

func (o *operator) setAside() (ids []string) {
	o.t.Helper()
	waiting, err := o.outbox.ListWaiting(o.t.Context(), 0, 10)
	must(o.t, err)
	for i := range waiting {
		ids = append(ids, waiting[i].Name)
		must(o.t, o.outbox.Refuse(o.t.Context(), waiting[i].Event, "poison", func(int) outbox.Decision { return outbox.Decision{SetAside: true, At: clock.System()} }))
	}
	return ids
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	_, send := o.visit()
	for n := range 4 {
		wish(send, n)
	}
	ids := o.setAside()
	page := get[events](o, "dead-letters?limit=3")
	if len(page.Events) != 3 || page.Next == nil || page.Events[0].Error != "poison" || page.Events[0].Attempts != 1 || page.Events[0].SetAside.IsZero() {
		t.Fatalf("%+v", page)
	}
	if page = get[events](o, fmt.Sprint("dead-letters?after=", *page.Next)); len(page.Events) != 1 || page.Next != nil || page.Backlog != nil {
		t.Errorf("the last page: %+v", page)
	}
	if one := get[event](o, "dead-letters/"+ids[1]); one.ID != ids[1] || len(one.Headers) == 0 {
		t.Errorf("%+v", one)
	}
	for _, change := range []string{"retry", "drop"} {
		if text := o.send(200, http.MethodPost, "dead-letters/"+ids[0]+"/"+change, ""); text != `{"events":1}` {
			t.Error(text)
		}
		o.send(404, http.MethodPost, "dead-letters/"+ids[0]+"/"+change, "")
		o.send(404, http.MethodGet, "dead-letters/"+ids[0], "")
		ids = ids[1:]
	}
	for _, c := range []struct{ path, want string }{
		{"retry-all", `{"events":2}`}, {"retry-all", `{"events":0}`}, {"drop-all", `{"events":0}`},
	} {
		if text := o.send(200, http.MethodPost, "dead-letters/"+c.path, ""); text != c.want {
			t.Errorf("%s: %s", c.path, text)
		}
	}
	if page := get[events](o, "outbox"); page.Backlog.Events != 3 {
		t.Errorf("waiting again: %+v", page)
	}
	o.setAside()
	if text := o.send(200, http.MethodPost, "dead-letters/drop-all", ""); text != `{"events":3}` {
		t.Error(text)
	}
}

func TestReceived(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	if text := o.send(200, http.MethodGet, "quarantine", ""); text != `{"events":[]}` {
		t.Error(text)
	}
	for _, id := range []string{"1", "2"} {
		_, err := o.tenants.Receive(t.Context(), inbox.Event{Source: "/x", ID: id, Type: "other", Time: clock.System(), Body: []byte("{}")})
		must(t, err)
	}
	quarantine := get[struct {
		Events []struct{ ID, Reason, Body string }
	}](o, "quarantine?limit=1")
	if len(quarantine.Events) != 1 || quarantine.Events[0].Body != "{}" || quarantine.Events[0].Reason == "" {
		t.Errorf("%+v", quarantine)
	}
	if text := o.send(200, http.MethodGet, "refusals", ""); text != `{"refusals":[]}` {
		t.Error(text)
	}
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: o.file})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	store := sqlite.New(db, clock.System, nil)
	at := time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC)
	for i, attempts := range []int64{999, 2} {
		id := guest.NewID(guest.HandoffPrefix, at)
		must(t, store.AddRefusals(t.Context(), []handoffs.NewRefusal{{
			Refusal: handoffs.Refusal{Handoff: id, Reason: handoffs.ReasonConsumed, Attempts: attempts, First: at, Last: at.Add(time.Duration(i) * time.Second)},
			Session: guest.NewID(guest.SessionPrefix, at),
			Event:   guest.Event{ID: guest.NewID(guest.EventPrefix, at), Type: "x", Subject: string(id), Retention: guest.Audit, Payload: []byte(`{}`)},
		}}))
	}
	refusals := get[struct {
		Refusals []struct {
			HandoffID, Reason string
			Attempts          int
			FirstAt, LastAt   time.Time
		}
	}](o, "refusals?limit=1").Refusals
	if len(refusals) != 1 || refusals[0].Attempts != 2 || refusals[0].Reason != handoffs.ReasonConsumed || !refusals[0].FirstAt.Equal(at) {
		t.Errorf("%+v", refusals)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	_, send := o.visit()
	wish(send, 1)
	send(http.MethodDelete, "/wishlist/1"+property[1:], "")
	for _, e := range get[events](o, "outbox").Events {
		o.publish(e.ID)
	}
	type job struct {
		Job          string
		Before       *time.Time
		Old, Deleted *int
	}
	old := func(name string) int {
		t.Helper()
		list := get[struct{ Jobs []job }](o, "jobs")
		i := slices.IndexFunc(list.Jobs, func(j job) bool { return j.Job == name })
		if i < 0 || len(list.Jobs) != len(retention.Jobs) {
			t.Fatalf("%+v", list)
		}
		return *list.Jobs[i].Old
	}
	run := func(path, body string) (j job) {
		t.Helper()
		must(t, json.Unmarshal([]byte(o.send(200, http.MethodPost, "jobs/"+path, body)), &j))
		return j
	}
	if n := old("events"); n != 0 {
		t.Errorf("%d events are old", n)
	}
	o.later.Store(int64(40 * 24 * time.Hour))
	if j := run("events/run", `{"dryRun":true}`); old("events") != 2 || *j.Old != 2 || j.Before == nil || j.Deleted != nil {
		t.Errorf("dry run: %+v", j)
	}
	if j := run("events/run", ""); *j.Deleted != 2 || j.Old != nil || j.Before != nil {
		t.Errorf("%+v", j)
	}
	for _, c := range []struct{ body, want string }{
		{`{"dryRun":true}`, `"job":"removed-wishes","before":`}, {"", `{"job":"removed-wishes","deleted":1}`}, {`{"dryRun":false}`, `{"job":"removed-wishes","deleted":0}`},
	} {
		if text := o.send(200, http.MethodPost, "jobs/run-all", c.body); !strings.Contains(text, c.want) || strings.Count(text, `"job"`) != len(retention.Jobs) {
			t.Errorf("all %s: %s", c.body, text)
		}
	}
	o.send(404, http.MethodPost, "jobs/other/run", "")
	for _, query := range []string{"dryRun=true", "dryRun=maybe", "x"} { // a typo must not delete data
		o.send(422, http.MethodPost, "jobs/events/run?"+query, "")
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	session, send := o.visit()
	wish(send, 1)
	if text := o.send(200, http.MethodPost, "sessions/"+session+"/erase", ""); text != `{"wishes":1,"handoffs":0,"answers":1,"botScores":0,"events":0,"keptEvents":1,"remains":[],"retained":[]}` {
		t.Error(text)
	}
	o.send(422, http.MethodPost, "sessions/gms_x/erase", "")
}

func TestUserSessions(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: o.file})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	store := sqlite.New(db, clock.System, nil)
	var ids []string
	for i, user := range []string{"u-1", "u-1", "u-1", "u-2"} {
		now := time.Now()
		l := guest.Link{
			Mutation: guest.Mutation{Session: guest.NewID(guest.SessionPrefix, now), Route: "test", Key: fmt.Sprint(i)}, User: user,
			Next: guest.NewID(guest.UserSessionPrefix, now.Add(time.Duration(i)*time.Second)), List: guest.NewID(guest.SessionPrefix, now), Event: guest.NewID(guest.EventPrefix, now),
		}
		_, err := store.LinkUser(t.Context(), l)
		must(t, err)
		ids = append(ids, string(l.Next))
	}
	type page struct {
		Sessions []struct{ ID, User, List string }
		Next     *string
	}
	if all := get[page](o, "user-sessions?limit=3"); len(all.Sessions) != 3 || all.Next == nil || *all.Next != ids[2] || all.Sessions[0].User != "u-1" || all.Sessions[0].List != all.Sessions[1].List {
		t.Errorf("first page %+v", all)
	}
	if rest := get[page](o, "user-sessions?after="+ids[2]); len(rest.Sessions) != 1 || rest.Sessions[0].User != "u-2" {
		t.Errorf("second page %+v", rest)
	}
	if text := o.send(200, http.MethodPost, "user-sessions/"+ids[0]+"/end", ""); text != `{"sessions":1}` {
		t.Error(text)
	}
	o.send(404, http.MethodPost, "user-sessions/"+ids[0]+"/end", "")
	o.send(422, http.MethodPost, "user-sessions/gus_x/end", "")
	if text := o.send(200, http.MethodPost, "user-sessions/u-1/end-all", ""); text != `{"sessions":2}` {
		t.Error(text)
	}
	if all := get[page](o, "user-sessions?user=u-1"); len(all.Sessions) != 0 {
		t.Errorf("after the end %+v", all)
	}
	o.send(422, http.MethodPost, "user-sessions/a%20b/end-all", "")
}

// TestRefusedRequests checks that each operation refuses unknown parameters and members, and values with a wrong type,
// and names them.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	fill := strings.NewReplacer("KEY", "k", "TENANT", tenant, "EVENT", "evt_1", "JOB", "events", "SESSION", "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B")
	for i, route := range adminapi.New("guest", o.operations).Routes() {
		path := strings.TrimPrefix(fill.Replace(route.Path), "/guest/")
		refuse := func(query, body, field string) {
			t.Helper()
			if text := o.send(422, route.Method, path+query, body); !strings.Contains(text, `"errors":[{`+field) {
				t.Errorf("%s %s%s %s: %s, want %s", route.Method, path, query, body, text, field)
			}
		}
		refuse("?other=1", "", `"pointer":"","parameter":"other"`)
		refuse("?a=%", "", `"pointer":"","code":"invalid"`)
		for _, in := range o.operations[i].Inputs {
			switch {
			case in.Subject:
			case route.Method == http.MethodPost:
				refuse("", `{"other":1}`, `"pointer":"/other"`)
				refuse("", `{"`+in.Member()+`":{}}`, `"pointer":"/`+in.Member()+`"`)
				refuse("", `[]`, `"pointer":"","code":"invalid"`)
			default:
				for _, value := range []string{"x", "", "-1", "1.5", "1&" + in.Name + "=2"} {
					if in.Name == "after" && value == "" || in.Name == "user" && !strings.Contains(value, "&") { // the first page; any text
						continue
					}
					refuse("?"+in.Name+"="+value, "", `"pointer":"","parameter":"`+in.Name+`"`)
				}
			}
		}
		if allow := o.allowed(path); !slices.Contains(strings.Split(allow, ", "), route.Method) {
			t.Errorf("%s: allowed are %q, not %s", path, allow, route.Method)
		}
		if o.operations[i].Input("limit") != nil {
			refuse("?limit=0", "", `"pointer":"","parameter":"limit"`)
			refuse("?limit=1001", "", `"pointer":"","parameter":"limit"`)
		}
	}
	for _, path := range []string{"outbox/x/y", "dead-letters/", "dead-letters/x/other", "jobs/x/y", "sessions", "sessions/x", "sessions/x/y", "other"} {
		if allow := o.allowed(path); allow != "" {
			t.Errorf("%s: allowed are %s", path, allow)
		}
	}
}

func (o *operator) allowed(path string) string {
	o.t.Helper()
	resp, err := http.DefaultClient.Do(webtest.Request(o.t, o.Base, http.MethodPatch, "/guest/"+path, nil))
	must(o.t, err)
	must(o.t, resp.Body.Close())
	allow := resp.Header.Get("Allow")
	if want := map[bool]int{true: http.StatusMethodNotAllowed, false: http.StatusNotFound}[allow != ""]; resp.StatusCode != want {
		o.t.Errorf("PATCH %s: %d, want %d", path, resp.StatusCode, want)
	}
	return allow
}
