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

// TestHandoffKeys: an operator changes keys by requests, as described, and never sees their secrets.
func TestHandoffKeys(t *testing.T) {
	t.Parallel()
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
	client := &http.Client{Transport: &openapitest.Transport{Document: described, Next: http.DefaultTransport, Report: func(err error) { t.Error(err) }}}
	api := adminapi.New(s.Name, s.Operations)
	base := webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{}).URL
	send := func(status int, method, path string) (key struct{ ID, State string }) {
		t.Helper()
		resp, err := client.Do(webtest.Request(t, base, method, "/guest/keys"+path, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || strings.Contains(string(text), "ecret") {
			t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.StatusCode, text, err, status)
		}
		_ = json.Unmarshal(text, &key) // lists and problems are no keys
		return key
	}
	first := send(200, http.MethodPost, "/rotate")
	second := send(201, http.MethodPost, "")
	if first.State != "active" || second.State != "verify-only" {
		t.Errorf("%v, %v", first, second)
	}
	send(409, http.MethodPost, "/"+first.ID+"/retire")
	if k := send(200, http.MethodPost, "/"+second.ID+"/activate"); k.State != "active" {
		t.Errorf("%v", k)
	}
	if k := send(200, http.MethodPost, "/"+first.ID+"/retire"); k.State != "retired" {
		t.Errorf("%v", k)
	}
	send(404, http.MethodPost, "/missing/revoke")
	send(404, http.MethodPost, "/"+first.ID+"/other")
	send(405, http.MethodDelete, "/rotate")
	send(200, http.MethodPost, "/"+second.ID+"/revoke")
	send(200, http.MethodPost, "/revoke-all")
	send(200, http.MethodGet, "")
}
