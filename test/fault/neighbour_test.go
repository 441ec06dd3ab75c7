package fault

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	syncload "holdfast/internal/workload/sync"
	program "holdfast/test/binary"
	extfault "holdfast/test/fault/ext"
	"holdfast/test/fault/harness"
	syncfault "holdfast/test/fault/sync"
	accountsfault "holdfast/test/fault/tokenserver"
)

// TestNeighbours checks that clients are served, never with 503, while another client uses as much of the server as it
// can.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		neighbours(t, testdb.SQLite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "SQLite has shown the same")
		neighbours(t, t.TempDir(), servicesOn(testdb.PostgresDatabase(t))...)
	})
}

func neighbours(t *testing.T, data string, vars ...string) {
	t.Helper()
	const neighbouring, large = 4, 4 << 20
	h := harness.Start(t, neighbouring+2, data, vars...)
	attacker, reader := h.Users[0], h.Users[1]
	for _, u := range []*syncload.User{attacker, reader} {
		syncfault.FillCollection(h, u, "history", large)
	}
	body := `[{"id":"slow","payload":"` + strings.Repeat("x", 1000) + `"}]`
	upload := string(h.Text(attacker, http.MethodPost, "/storage/tabs", body))
	put := string(extfault.WireExt(h, extfault.NewInstall(t, 1), ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/slow", Body: `{"value":"` + strings.Repeat("x", 1000) + `"}`}))
	for name, attack := range map[string]struct {
		connections int
		request     string
	}{
		"slow bodies":   {400, upload[:len(upload)-10]},
		"slow values":   {400, put[:len(put)-10]},
		"slow listings": {280, string(h.Text(attacker, http.MethodGet, "/storage/history?full=1", ""))},
	} {
		conns := make([]net.Conn, attack.connections)
		for i := range conns {
			conn := h.Dial(4 << 10)
			_, err := io.WriteString(conn, attack.request)
			harness.Must(t, err)
			conns[i] = conn
		}
		beside := h.StartOthers(neighbouring)
		in := extfault.NewInstall(t, 2)
		for i := range 20 {
			if _, err := syncfault.Download(h, reader, "history"); err != nil {
				t.Errorf("%s: neighbour's large listing: %v", name, err)
			}
			extfault.WantExt(h, in, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[i == 0], ext.Call{
				Method: http.MethodPut, Path: "/namespaces/settings/records/" + strings.ReplaceAll(name, " ", "-"), Body: `{"value":1}`,
			})
		}
		t.Log(name)
		beside.Stop()
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// TestSlowAccountsServer checks that sign-ins to a hanging accounts server delay neither other requests nor sign-ins
// from other addresses.
func TestSlowAccountsServer(t *testing.T) {
	t.Parallel()
	const attacks = 600
	hang := make(chan struct{})
	asked := make(chan struct{}, attacks)
	accounts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hang
	}))
	defer accounts.Close()
	defer close(hang)
	vars := append(append(accountsfault.Vars(), harness.ExtVars()...), "HOLDFAST_LOG__ACCESS=false", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1",
		"HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+accounts.URL, "HOLDFAST_TOKENSERVER__ALLOW_NEW_USERS=true")
	s := program.Start(t, testdb.SQLite(t), vars...)
	client := &http.Client{Timeout: harness.Bound, Transport: &http.Transport{MaxIdleConnsPerHost: attacks}}
	t.Cleanup(client.CloseIdleConnections)
	signIn := func(from, token string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/1.0/sync/1.5", nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-Forwarded-For", from)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("X-KeyID", "1-"+base64.RawURLEncoding.EncodeToString(make([]byte, 16)))
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, errors.Join(err, resp.Body.Close())
	}
	var attacking sync.WaitGroup
	defer attacking.Wait() // bounded by the server's timeouts
	for i := range attacks {
		attacking.Go(func() {
			if status, err := signIn("192.0.2.1", fmt.Sprintf("garbage-%d", i)); err == nil && status != http.StatusServiceUnavailable {
				t.Errorf("garbage token: status %d", status)
			}
		})
	}
	for range 50 {
		<-asked
	}
	token := accessToken(t, "neighbour")
	storage := s.Token(1)
	for range 20 {
		if status, err := signIn("198.51.100.1", token); err != nil || status != http.StatusOK {
			t.Errorf("neighbour's sign-in: %d, %v", status, err)
		}
		storage.Want(t, http.StatusOK, http.MethodGet, "/info/collections", "")
	}
}

func accessToken(t *testing.T, account string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: accountsfault.Key(), KeyID: "fault"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	harness.Must(t, err)
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"sub": account, "scope": "https://identity.mozilla.com/apps/oldsync", "exp": time.Now().Add(time.Hour).Unix(), "fxa-generation": 1,
	}).Serialize()
	harness.Must(t, err)
	return token
}
