package sync

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/openapitest"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/testdb"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// TestTokenRequests: an operator creates a token on the admin listener. Wrong values are refused as described.
func TestTokenRequests(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t) // it counts the test
	s := New()
	sv := s.Service()
	servicetest.Open(t, sv, nil)
	text, err := os.ReadFile("../../syncstorage/httpapi/openapi-admin.json")
	if err != nil {
		t.Fatal(err)
	}
	described, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.New(sv.CommandName(), sv.Operations)
	base := webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{}).URL
	client := &http.Client{Transport: &openapitest.Transport{Document: described, Next: http.DefaultTransport, Report: func(err error) { t.Error(err) }}}
	for _, c := range []struct {
		uid, body, says string
		status          int
	}{
		{"7", "", "", 201},
		{"7", `{"fxaUid":"0123abcd","fxaKid":"0000000001234-qqo","ttl":"5m"}`, "", 201},
		{"0", "", "must be at least 1", 422},
		{"x", "", "expected a whole number", 422},
		{"7", `{"ttl":"60"}`, "expected a duration with a unit", 422},
		{"7", `{"ttl":"87601h"}`, "must be from 1s to 87600h", 422},
	} {
		r := webtest.Request(t, base, http.MethodPost, "/sync/tokens/"+c.uid+"/create", strings.NewReader(c.body))
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Token
			Detail string
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		if closed := resp.Body.Close(); err != nil || closed != nil || resp.StatusCode != c.status || !strings.Contains(answer.Detail, c.says) {
			t.Errorf("%+v: %d %+v, %v", c, resp.StatusCode, answer, err)
		}
		if c.status != 201 {
			continue
		}
		claims, _, err := s.keyring.Open(answer.ID, s.deps.Clock())
		if err != nil || claims.UID != 7 || strings.Contains(c.body, "0123abcd") != (claims.FxAUID == "0123abcd") || !strings.HasSuffix(answer.Endpoint, "/1.5/7") {
			t.Errorf("%+v: %+v, %v", c, claims, err)
		}
	}
}
