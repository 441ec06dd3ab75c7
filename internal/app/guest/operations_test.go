//test:unraced compiling Google's clients for the race detector takes a minute

package guest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"holdfast/internal/app/guest"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/openapitest"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/testdb"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// operator sends requests for operations, which must be as described.
type operator struct {
	t      *testing.T
	base   string
	client *http.Client
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	testdb.SQLite(t) // it counts the test
	s := guest.New().Service()
	servicetest.Open(t, s, nil)
	text, err := os.ReadFile("../../guest/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	described, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.New(s.Name, s.Operations)
	return &operator{
		t: t, base: webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{}).URL,
		client: &http.Client{Transport: &openapitest.Transport{Document: described, Next: http.DefaultTransport, Report: func(err error) { t.Error(err) }}},
	}
}

func (o *operator) send(status int, method, path, body string) string {
	o.t.Helper()
	r := webtest.Request(o.t, o.base, method, "/guest/"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := o.client.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || strings.Contains(string(text), "ecret") {
		o.t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.StatusCode, text, err, status)
	}
	return string(text)
}

// TestHandoffKeys: an operator changes keys, and never sees their secrets.
func TestHandoffKeys(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	post := func(status int, path string) (key struct{ ID, State string }) {
		t.Helper()
		_ = json.Unmarshal([]byte(o.send(status, http.MethodPost, "keys"+path, "")), &key) // problems are no keys
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
	post(404, "/missing/revoke")
	post(404, "/"+first.ID+"/other")
	post(200, "/"+second.ID+"/revoke")
	post(200, "/revoke-all")
	o.send(405, http.MethodDelete, "keys/rotate", "")
	if list := o.send(200, http.MethodGet, "keys", ""); !strings.Contains(list, first.ID) {
		t.Errorf("no %s in %s", first.ID, list)
	}
}

// TestTenants: an operator suspends a tenant and reinstates it.
func TestTenants(t *testing.T) {
	t.Parallel()
	const tenant = "33333333-2222-4333-8444-555555555555"
	o := newOperator(t)
	if text := o.send(200, http.MethodPost, "tenants/"+tenant+"/suspend", `{"reason":"unpaid"}`); text != `{"tenantId":"`+tenant+`","suspended":true}` {
		t.Error(text)
	}
	if text := o.send(200, http.MethodGet, "tenants", ""); !strings.Contains(text, `{"tenantId":"`+tenant+`","reason":"unpaid",`) {
		t.Error(text)
	}
	o.send(200, http.MethodPost, "tenants/"+tenant+"/reinstate", "")
	if text := o.send(200, http.MethodGet, "tenants", ""); text != `{"tenants":[]}` {
		t.Error(text)
	}
	o.send(422, http.MethodPost, "tenants/x/suspend", "")
	o.send(422, http.MethodPost, "tenants/"+tenant+"/suspend", `{"reason":1}`)
	o.send(422, http.MethodPost, "tenants/"+tenant+"/suspend", `{"why":"unpaid"}`)
}
