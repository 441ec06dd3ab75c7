package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/web/webtest"
)

// TestRefusedRequestsInTheLog checks that an operator finds refused requests by their status, with the reason in words and
// without a secret, although log.access is off.
func TestRefusedRequestsInTheLog(t *testing.T) {
	t.Parallel()
	b, text, environ := serveConsole(t)
	main := addressOf(t, text, "clients")
	runCommand(t, environ, "buckets", "buckets", "create", "main", "photos")
	out := runCommand(t, environ, "buckets", "keys", "create", "main", "--bucket", "photos", "--right", "read", "--json")
	var key struct{ AccessKey, SecretKey, Endpoint string }
	if err := json.Unmarshal([]byte(out), &key); err != nil || key.SecretKey == "" {
		t.Fatalf("%s %v", out, err)
	}
	endpoint := addressOf(t, text, "s3")
	send := func(want int, r *http.Request) {
		t.Helper()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
			t.Errorf("%s %s: %d, %v, want %d", r.Method, r.URL, resp.StatusCode, err, want)
		}
	}
	signed := func(s sigv4test.Signer, method, path string) *http.Request {
		r := webtest.Request(t, endpoint, method, path, nil)
		s.Sign(r, sigv4test.Unsigned, time.Now())
		return r
	}
	signer := sigv4test.Signer{AccessKeyID: key.AccessKey, Secret: key.SecretKey, Region: "us-east-1"}
	send(http.StatusForbidden, signed(signer, http.MethodPut, "/photos/a"))
	wrong := signer
	wrong.Secret = "wrong-secret"
	send(http.StatusForbidden, signed(wrong, http.MethodGet, "/photos/a"))
	send(http.StatusForbidden, webtest.Request(t, endpoint, http.MethodGet, "/photos/a", nil))
	bearer := webtest.Request(t, main, http.MethodGet, "/ext/v1/installs/"+someInstall+"/usage", nil)
	bearer.Header.Set("Authorization", "Bearer a.secret.token")
	send(http.StatusUnauthorized, bearer)
	send(http.StatusUnauthorized, webtest.Request(t, main, http.MethodGet, "/1.0/sync/1.5", nil))
	for status, reasons := range map[string][]string{
		"403": {"the access key is limited to the buckets photos; the rights read", "the signature does not match", "the request is not signed, and this name finds no public or shared bucket: sign the request, or make the bucket public"},
		"401": {"the token is malformed", "no Authorization header"}, "4xx": {"the token is malformed", "the signature does not match"},
	} {
		b.open("log?status=" + status)
		b.shows(reasons...)
		b.hides("wrong-secret", key.SecretKey, "a.secret.token")
		if status != "4xx" && strings.Contains(b.page.String(), map[string]string{"401": "the signature does not match", "403": "the token is malformed"}[status]) {
			t.Errorf("the page for %s shows requests with another status", status)
		}
	}
	b.open("log?status=5xx")
	b.shows("No line in memory matches")
	if got := b.send(http.MethodGet, b.base+"/console/log?status=4x", nil); got != http.StatusBadRequest {
		t.Errorf("status=4x: %d", got)
	}
}
