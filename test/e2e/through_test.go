package e2e

import (
	"net/http"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/test/binary"
)

func through(t *testing.T, c binary.Credentials, sent, signed string) int {
	t.Helper()
	as, err := http.NewRequest(http.MethodGet, signed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hawk.SignHTTP(as, c.ID, c.Key, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, sent, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", as.Header.Get("Authorization"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
