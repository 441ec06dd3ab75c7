package guest_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	app "holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/testdb"
	"holdfast/internal/web/webtest"
)

// TestReadyWithHotState checks that a service that says that it is ready uses the hot state in Redis, although the
// server did not call Settle yet, which reads the database's epoch.
func TestReadyWithHotState(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t)
	s := servicetest.Open(t, app.New().Service(), nil, "HOLDFAST_GUEST__HOT="+testdb.Redis(t), "HOLDFAST_GUEST__HOT_PREFIX="+strings.ToLower(t.Name()))
	main := httptest.NewServer(s.Handler(service.Main))
	defer main.Close()
	jar, err := cookiejar.New(nil)
	must(t, err)
	client := &http.Client{Jar: jar}
	send := func(method, path, body string) int {
		t.Helper()
		r := webtest.Request(t, main.URL, method, "/bff/consumer/v1"+path, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", fmt.Sprint(method, path))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(r)
		must(t, err)
		must(t, resp.Body.Close())
		return resp.StatusCode
	}
	if got := send(http.MethodPost, "/session", ""); got != http.StatusCreated {
		t.Fatalf("a session: %d", got)
	}
	if got := send(http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`); got != http.StatusServiceUnavailable {
		t.Fatalf("preferences before the service is ready: %d", got)
	}
	must(t, s.Ready(t.Context()))
	if got := send(http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`); got != http.StatusOK {
		t.Errorf("preferences when the service is ready: %d", got)
	}
}
