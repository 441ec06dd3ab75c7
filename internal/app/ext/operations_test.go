package ext

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/web/webtest"
)

type adminAPI struct {
	*server
	*servicetest.Operator
	t   *testing.T
	all []operate.Operation
}

func newAdminAPI(t *testing.T) *adminAPI {
	t.Helper()
	testdb.SQLite(t)
	s := open(t, nil)
	sv := s.Service()
	runs := operate.RunsOf(sv.Operations)
	runs.Begin(t.Context(), time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(runs.End)
	return &adminAPI{s, servicetest.NewOperator(t, sv, "../../extstorage/httpapi/openapi-admin.json"), t, sv.Operations}
}

func (a *adminAPI) send(status int, method, path, body string) string {
	a.t.Helper()
	return a.Send(status, method, "/ext/"+path, body).Text
}

func (a *adminAPI) create(path, body string) (made tokenOutput) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.send(201, http.MethodPost, path, body)), &made); err != nil {
		a.t.Fatal(err)
	}
	return made
}

func (a *adminAPI) revoked(path string) (ids []string) {
	a.t.Helper()
	var all struct{ Revoked []revokedOutput }
	if err := json.Unmarshal([]byte(a.send(200, http.MethodGet, path, "")), &all); err != nil {
		a.t.Fatal(err)
	}
	for _, one := range all.Revoked {
		ids = append(ids, one.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestTokenOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	tenant := string(someInstall.Tenant)
	install, services := "tokens/"+tenant+"/"+string(someInstall.Install), "service-tokens/"+tenant
	main := httptest.NewServer(a.Handler(service.Main))
	t.Cleanup(main.Close)
	usage := func(status int, token string) {
		t.Helper()
		r := webtest.Request(t, main.URL, http.MethodGet, "/ext/v1/installs/"+string(someInstall.Install)+"/usage", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != status {
			t.Errorf("usage: %d, %v, want %d", resp.StatusCode, err, status)
		}
	}
	one, two := a.create(install+"/create", `{"namespace":["settings=rw","log=r"],"ttl":"2h"}`), a.create(install+"/create", `{"namespace":["a=r"]}`)
	if left := time.Until(one.Expires); left < 90*time.Minute || left > 2*time.Hour || !strings.Contains(one.URL, "/ext/v1/installs/"+string(someInstall.Install)) {
		t.Errorf("%+v", one)
	}
	usage(200, one.Token)
	a.send(200, http.MethodPost, "tokens/revoke", `{"token":"`+one.Token+`"}`)
	usage(401, one.Token)
	usage(200, two.Token)
	a.send(200, http.MethodPost, install+"/"+two.ID+"/revoke-id", "")
	usage(401, two.Token)
	a.send(200, http.MethodPost, install+"/of%2Fone/revoke-id", `{"expires":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	want := []string{one.ID, two.ID, "of/one"}
	slices.Sort(want)
	if ids := a.revoked(install); !slices.Equal(ids, want) {
		t.Errorf("revoked are %q, want %q", ids, want)
	}

	runner := a.create(services+"/create", `{"service":"runner","schemas":true}`)
	a.send(200, http.MethodPost, "tokens/revoke", `{"token":"`+runner.Token+`"}`)
	a.send(200, http.MethodPost, services+"/other/revoke-id", "")
	if ids := a.revoked(services); len(ids) != 2 || !slices.Contains(ids, runner.ID) || !slices.Contains(ids, "other") {
		t.Errorf("revoked are %q", ids)
	}

	for _, c := range []struct{ path, body, field, says string }{
		{install + "/create", "", "/namespace", "required: expected at least one namespace, e.g. settings=rw"},
		{install + "/create", `{"namespace":[]}`, "/namespace", "expected at least one"},
		{install + "/create", `{"namespace":["settings"]}`, "/namespace", "settings: access is missing: expected settings=r, settings=w or settings=rw"},
		{install + "/create", `{"namespace":["a=x"]}`, "/namespace", "a=x: access must be r, w or rw"},
		{install + "/create", `{"namespace":["a=r b=r"]}`, "/namespace", "expected a list of words"},
		{install + "/create", `{"namespace":[1]}`, "/namespace", "expected a list of words"},
		{install + "/create", `{"namespace":"a=r"}`, "/namespace", "expected a list of words"},
		{install + "/create", `{"namespace":["a=r"],"ttl":"soon"}`, "/ttl", "expected a duration with a unit, e.g. 30s, 2h, 90d or 2w"},
		{install + "/create", `{"namespace":["a=r"],"ttl":"1ms"}`, "/ttl", "must be from 1s to 90d, the setting extstorage.token_max_lifetime"},
		{install + "/create", `{"namespace":["a=r"],"ttl":"2160h1s"}`, "/ttl", "must be from 1s to 90d, the setting extstorage.token_max_lifetime"},
		{"tokens/x/" + string(someInstall.Install) + "/create", `{"namespace":["a=r"]}`, "tenant", "must be a UUID"},
		{"tokens/" + tenant + "/x/create", `{"namespace":["a=r"]}`, "install", "must be a UUID"},
		{services + "/create", "", "/service", "must not be empty"},
		{services + "/create", `{"service":"Run ner"}`, "/service", "invalid name: expected 1 to 64 characters from a-z, 0-9 and -"},
		{"service-tokens/x/create", `{"service":"a"}`, "tenant", "must be a UUID"},
		{"tokens/revoke", "", "/token", "must not be empty"},
		{"tokens/revoke", `{"token":"a.b.c"}`, "", "the token is not valid, so it need not be revoked"},
		{install + "/%00/revoke-id", "", "id", "must be a token's jti claim: 1 to 256 bytes"},
		{install + "/a/revoke-id", `{"expires":"tomorrow"}`, "/expires", "expected a time, e.g."},
		{install + "/a/revoke-id", `{"expires":"2020-01-01T00:00:00Z"}`, "/expires", "must be in the future"},
		{services + "/a/revoke-id", `{"expires":"2020-01-01T00:00:00Z"}`, "/expires", "must be in the future"},
	} {
		if text := a.send(422, http.MethodPost, c.path, c.body); !strings.Contains(text, c.says) || !strings.Contains(text, `"`+c.field+`"`) {
			t.Errorf("%s %s: %s", c.path, c.body, text)
		}
	}
}

func TestDeadLetterOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	var all struct {
		Events []deadOutput
		Next   *string
	}
	read := func(query string) {
		t.Helper()
		all.Events, all.Next = nil, nil
		if err := json.Unmarshal([]byte(a.send(200, http.MethodGet, "dead-letters"+query, "")), &all); err != nil {
			t.Fatal(err)
		}
	}
	read("")
	if len(all.Events) != 0 || all.Next != nil {
		t.Errorf("%+v", all)
	}
	a.setAside(5)
	read("?limit=2")
	if len(all.Events) != 2 || all.Next == nil || all.Events[0].Error == "" || !json.Valid(all.Events[0].Payload) {
		t.Fatalf("%+v", all)
	}
	first := all.Events[0]
	after := strings.ReplaceAll(*all.Next, " ", "%20")
	read("?limit=2&after=" + after)
	if len(all.Events) != 2 || all.Events[0].Seq <= first.Seq {
		t.Errorf("%+v", all)
	}
	path := func(seq int64) string {
		return fmt.Sprintf("dead-letters/%s/%s/%d", someInstall.Tenant, someInstall.Install, seq)
	}
	var shown deadOutput
	if err := json.Unmarshal([]byte(a.send(200, http.MethodGet, path(first.Seq), "")), &shown); err != nil || shown.Seq != first.Seq || shown.Topic != first.Topic {
		t.Errorf("%+v, %v", shown, err)
	}
	for _, verb := range []string{"retry", "drop"} {
		a.send(404, http.MethodPost, path(99)+"/"+verb, "")
		a.send(422, http.MethodPost, "dead-letters/x/y/1/"+verb, "")
		a.send(422, http.MethodPost, path(1)+"x/"+verb, "")
	}
	a.send(404, http.MethodGet, path(99), "")
	for _, after := range []string{"x", "1%202%203", string(someInstall.Tenant), "a%20b%20c%20d"} {
		if text := a.send(422, http.MethodGet, "dead-letters?after="+after, ""); !strings.Contains(text, `"parameter":"after"`) {
			t.Error(text)
		}
	}
	a.send(200, http.MethodPost, path(first.Seq)+"/retry", "")
	a.send(404, http.MethodPost, path(first.Seq)+"/retry", "")
	a.send(200, http.MethodPost, path(first.Seq+1)+"/drop", "")
	if text := a.send(200, http.MethodPost, "dead-letters/retry-all", ""); text != `{"events":3}` {
		t.Error(text)
	}
	if text := a.send(200, http.MethodPost, "dead-letters/drop-all", ""); text != `{"events":0}` {
		t.Error(text)
	}
}

func (a *adminAPI) setAside(n int) {
	a.t.Helper()
	r := ext.Request{Grant: ext.Grant{Owner: someInstall, Every: ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
	for i := range n {
		if _, err := a.opened.Do(a.t.Context(), r, ext.Task{Namespace: "a", Key: ext.Key(fmt.Sprint(i)), Value: "1"}); err != nil {
			a.t.Fatal(err)
		}
	}
	q := outbox.Query{Limit: n, Now: time.Now()}
	for p := range outbox.Partitions {
		q.Parts |= outbox.PartsOf(p)
	}
	events, _, err := a.audit.Next(a.t.Context(), q)
	if err != nil || len(events) != n {
		a.t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		if err := a.audit.Refuse(a.t.Context(), e, "too large", func(int) outbox.Decision { return outbox.Decision{SetAside: true, At: q.Now} }); err != nil {
			a.t.Fatal(err)
		}
	}
}
