package sync

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/testdb"
)

func TestTokenRequests(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t)
	s := New()
	sv := s.Service()
	servicetest.Open(t, sv, nil)
	o := servicetest.NewOperator(t, sv, "../../syncstorage/httpapi/openapi-admin.json")
	for _, c := range []struct {
		uid, body, says string
		status          int
	}{
		{"7", "", "", 201},
		{"7", `{"fxaUid":"0123abcd","fxaKid":"0000000001234-qqo","ttl":"5m"}`, "", 201},
		{"0", "", "must be at least 1", 422},
		{"x", "", "expected a whole number", 422},
		{"7", `{"ttl":"60"}`, "expected a duration with a unit", 422},
		{"7", `{"ttl":"87601h"}`, "must be from 1s to 3650d", 422},
	} {
		var answer struct {
			Token
			Detail string
		}
		text := o.Send(c.status, http.MethodPost, "/sync/tokens/"+c.uid+"/create", c.body).Text
		if err := json.Unmarshal([]byte(text), &answer); err != nil || !strings.Contains(answer.Detail, c.says) {
			t.Errorf("%+v: %s, %v", c, text, err)
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
