package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/tokenserver"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	r := s.signIn(t, "alice", 1234, "1234-qqo")
	g := r.grant(t)
	want := grant{
		ID: g.ID, Key: g.Key, UID: 1, APIEndpoint: s.URL + "/1.5/1", Duration: 3600,
		HashedFxAUID: g.HashedFxAUID, HashAlg: "sha256", NodeType: "sqlite",
	}
	if g != want || len(g.HashedFxAUID) != 32 {
		t.Errorf("got %+v", g)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-Timestamp": "1795262400", "X-Weave-Timestamp": "1795262400.00",
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		if got := r.head.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	claims, key, err := s.keyring.Open(g.ID, t0)
	must(t, err)
	if key != g.Key || len(claims.HashedDeviceID) != 32 || claims.Salt == "" {
		t.Errorf("key %s, claims %+v", key, claims)
	}
	if want := (tokenlib.Claims{
		UID: 1, FxAUID: "alice", FxAKID: "0000000001234-qqo", Node: s.URL, Expires: t0.Add(time.Hour).Local(),
		HashedFxAUID: g.HashedFxAUID, HashedDeviceID: claims.HashedDeviceID, Salt: claims.Salt, Origin: "holdfast",
	}); claims != want {
		t.Errorf("claims %+v, want %+v", claims, want)
	}
}

func TestNodeIsWhereTheClientIs(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	at := func(host string) grant {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/1.0/sync/1.5", nil)
		must(t, err)
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+token("alice", 7))
		req.Header.Set("X-KeyID", "5-qqo")
		res, err := s.Client().Do(req)
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return reply{res.StatusCode, res.Header, string(body)}.grant(t)
	}
	if a, b := at("house.lan:8000"), at("127.0.0.1:8000"); a.APIEndpoint != "http://house.lan:8000/1.5/1" || b.APIEndpoint != "http://127.0.0.1:8000/1.5/1" {
		t.Errorf("got %s and %s", a.APIEndpoint, b.APIEndpoint)
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(o *tokenserver.Options) { o.PublicURL = "https://example.org/sync" })
	for _, path := range []string{"/1.0/sync/1.5", "/sync/1.0/sync/1.5", "/token/1.0/sync/1.5", "/sync/token/1.0/sync/1.5", "/1.0/sync/1.5/"} {
		g := s.do(t, "GET", path, "Authorization", "Bearer "+token("alice", 7), "X-KeyID", "5-qqo").grant(t)
		if g.APIEndpoint != "https://example.org/sync/1.5/1" {
			t.Errorf("%s: %s", path, g.APIEndpoint)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for query, want := range map[string]int64{
		"": 3600, "?duration=12": 12, "?duration=3600": 3600, "?duration=0": 0, "?duration=3601": 3600, "?duration=-1": 3600,
		"?duration=x": 3600, "?duration=": 3600, "?duration=1.5": 3600, "?duration=99999999999999999999": 3600, "?%zz&duration=12": 12,
	} {
		g := s.do(t, "GET", "/1.0/sync/1.5"+query, "Authorization", "Bearer "+token("alice", 7), "X-KeyID", "5-qqo").grant(t)
		claims, _, err := s.keyring.Open(g.ID, t0.Add(-time.Second))
		if err != nil || g.Duration != want || !claims.Expires.Equal(t0.Add(time.Duration(want)*time.Second)) {
			t.Errorf("%q: %d, expires %s, %v; want %d", query, g.Duration, claims.Expires, err, want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	first := s.signIn(t, "alice", 7, "7-qqo").grant(t)
	if again := s.signIn(t, "alice", 8, "7-qqo").grant(t); again.UID != first.UID || again.HashedFxAUID != first.HashedFxAUID {
		t.Errorf("the same keys: %+v", again)
	}
	second := s.signIn(t, "alice", 9, "9-u7s").grant(t)
	if second.UID == first.UID || second.APIEndpoint == first.APIEndpoint {
		t.Errorf("new keys: %+v", second)
	}
	if claims, _, err := s.keyring.Open(second.ID, t0); err != nil || claims.FxAKID != "0000000000009-u7s" {
		t.Errorf("claims %+v, %v", claims, err)
	}
	state := func(detail string) [4]string {
		return [4]string{"invalid-client-state", "header", "X-Client-State", "Unacceptable client-state value " + detail}
	}
	plain := func(status string) [4]string { return [4]string{status, "body", "", "Unauthorized"} }
	for _, c := range []struct {
		name       string
		generation int64
		keyID      string
		want       [4]string
	}{
		{"keys beyond the generation", 10, "11-u7s", plain("invalid-keysChangedAt")},
		{"empty", 10, "10-", state("empty string")},
		{"stale", 10, "10-qqo", state("stale value")},
		{"no generation change", 9, "9-zMw", state("new value with no generation change")},
		{"no keys change", 10, "9-zMw", state("new value with no keys_changed_at change")},
		{"old generation", 8, "9-u7s", plain("invalid-generation")},
		{"old keys", 9, "8-u7s", plain("invalid-keysChangedAt")},
		{"no keys", 9, "0-u7s", plain("invalid-keysChangedAt")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.signIn(t, "alice", c.generation, c.keyID).wantError(t, 401, c.want[0], c.want[1], c.want[2], c.want[3])
		})
	}
}

func TestNoNewUsers(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(o *tokenserver.Options) { o.Config.AllowNewUsers = false })
	must(t, s.service.SetAccess(t.Context(), tokenserver.Account{FxAUID: "alice", Domain: tokenserver.DefaultConfig().FxAEmailDomain},
		tokenserver.Rule{Access: tokenserver.Allowed}))
	s.signIn(t, "alice", 9, "9-u7s").grant(t)
	s.signIn(t, "bob", 7, "7-qqo").wantError(t, 403, "new-users-disabled", "body", "", "New users are not allowed")
	refused, err := s.service.Refused(t.Context(), 10)
	if err != nil || len(refused) != 1 || refused[0].FxAUID != "bob" {
		t.Errorf("refused: %+v, %v", refused, err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	good := "Bearer " + token("alice", 7)
	bad := [4]string{"invalid-credentials", "body", "", "Unauthorized"}
	none := [4]string{"error", "body", "", "Unauthorized"}
	for _, c := range []struct {
		name    string
		status  int
		want    [4]string
		headers []string
	}{
		{"no Authorization", 401, none, []string{"X-KeyID", "5-qqo"}},
		{"Authorization without a blank", 401, none, []string{"Authorization", "Bearer", "X-KeyID", "5-qqo"}},
		{"another scheme", 401, [4]string{"error", "body", "", "Unsupported"}, []string{"Authorization", "Basic abc", "X-KeyID", "5-qqo"}},
		{"BrowserID", 401, [4]string{"error", "body", "", "Unsupported"}, []string{"Authorization", "BrowserID abc", "X-KeyID", "5-qqo"}},
		{"an unknown token", 401, bad, []string{"Authorization", "Bearer nonsense", "X-KeyID", "5-qqo"}},
		{"an empty token", 401, none, []string{"Authorization", "Bearer  ", "X-KeyID", "5-qqo"}},
		{"another scope", 401, bad, []string{"Authorization", `Bearer {"user":"alice","scope":["profile"]}`, "X-KeyID", "5-qqo"}},
		{"a user that the table cannot store", 401, bad, []string{"Authorization", "Bearer " + token("a\x00b", 7), "X-KeyID", "5-qqo"}},
		{"a user that is too long", 401, bad, []string{"Authorization", "Bearer " + token(strings.Repeat("a", 300), 7), "X-KeyID", "5-qqo"}},
		{"an outage", 503, [4]string{"error", "body", "", "Resource is not available"}, []string{"Authorization", "Bearer outage", "X-KeyID", "5-qqo"}},
		{"no X-KeyID", 401, [4]string{"invalid-key-id", "header", "", "Missing X-KeyID header"}, []string{"Authorization", good}},
		{"X-KeyID not ASCII", 401, [4]string{"invalid-key-id", "header", "", "Invalid X-KeyID header"}, []string{"Authorization", good, "X-KeyID", "5-\xffqo"}},
		{"X-KeyID empty", 401, bad, []string{"Authorization", good, "X-KeyID", ""}},
		{"X-KeyID without a dash", 401, bad, []string{"Authorization", good, "X-KeyID", "5"}},
		{"X-KeyID without a number", 401, bad, []string{"Authorization", good, "X-KeyID", "x-qqo"}},
		{"X-KeyID with a bad state", 401, bad, []string{"Authorization", good, "X-KeyID", "5-!"}},
		{"X-KeyID with a long state", 401, bad, []string{"Authorization", good, "X-KeyID", "5-" + strings.Repeat("A", 400)}},
		{"X-Client-State malformed", 400, [4]string{"error", "header", "X-Client-State", "Invalid client state value"},
			[]string{"Authorization", good, "X-KeyID", "5-qqo", "X-Client-State", "aa/aa"}},
		{"X-Client-State empty", 400, [4]string{"error", "header", "X-Client-State", "Invalid client state value"},
			[]string{"Authorization", good, "X-KeyID", "5-qqo", "X-Client-State", ""}},
		{"X-Client-State of other keys", 401, [4]string{"invalid-client-state", "body", "", "Unauthorized"},
			[]string{"Authorization", good, "X-KeyID", "5-qqo", "X-Client-State", "bbbb"}},
		{"credentials come before keys", 401, bad, []string{"Authorization", "Bearer nonsense"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := s.do(t, "GET", "/1.0/sync/1.5", c.headers...)
			r.wantError(t, c.status, c.want[0], c.want[1], c.want[2], c.want[3])
			if r.head.Get("X-Timestamp") == "" || (r.head.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("headers %v", r.head)
			}
		})
	}
	s.do(t, "GET", "/1.0/sync/1.5", "Authorization", "bEARER "+token("alice", 7), "X-KeyID", "5-qqo", "X-Client-State", "aaaa").grant(t)
	t.Cleanup(func() {
		for _, secret := range []string{"nonsense", tokenserver.Scope, "alice", "aa/aa"} {
			if strings.Contains(s.log.String(), secret) {
				t.Errorf("the log contains %q:\n%s", secret, s.log)
			}
		}
	})
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	auth := []string{"Authorization", "Bearer " + token("alice", 7), "X-KeyID", "5-qqo"}
	s.do(t, "GET", "/1.0/push/1.5", auth...).wantError(t, 404, "error", "url", "application", "Unsupported application")
	s.do(t, "GET", "/1.0/push/9", auth...).wantError(t, 404, "error", "url", "application", "Unsupported application")
	s.do(t, "GET", "/1.0/sync/1.1", auth...).wantError(t, 404, "error", "url", "1.1", "Unsupported application version")
	s.do(t, "GET", "/1.0/push/1.5").wantError(t, 401, "error", "body", "", "Unauthorized")
	for _, path := range []string{"/1.0/", "/1.0//1.5", "/1.0/sync", "/1.0/sync/1.5/x", "/1.0/webhooks/fxa/events/x"} {
		s.do(t, "GET", path, auth...).wantError(t, 404, "error", "url", "", "Not found")
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		r := s.do(t, method, "/1.0/sync/1.5", auth...)
		r.wantError(t, 405, "error", "body", "", "Method not allowed")
		if r.head.Get("Allow") != "GET" {
			t.Errorf("%s: Allow %q", method, r.head.Get("Allow"))
		}
	}
}

func TestNoNode(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	yes := true
	_, err := s.service.SetNode(t.Context(), tokenserver.Self, tokenserver.NodeChange{Downed: &yes})
	must(t, err)
	s.signIn(t, "alice", 7, "7-qqo").wantError(t, 503, "internal-error", "internal", "", "Server error")
}

func TestDatabaseUnavailable(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	must(t, s.db.Close())
	s.signIn(t, "alice", 7, "7-qqo").wantError(t, 503, "internal-error", "internal", "", "Server error")
}

func TestDatabaseTakesTooLong(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(o *tokenserver.Options) { o.Config.DatabaseRequestTimeout = time.Nanosecond })
	s.signIn(t, "alice", 7, "7-qqo").wantError(t, 504, "elapsed", "body", "", "Elapsed")
}

// TestClientConfiguration checks the members that Firefox on desktops, Android and iOS reads, for Mozilla's accounts
// server and another one, with and without a public URL. Nobody needs credentials or a database for it.
func TestClientConfiguration(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/fxa-client-configuration"
	mozilla := newServer(t, func(o *tokenserver.Options) {
		o.Config.FxAOAuthServerURL, o.PublicURL = tokenserver.DefaultConfig().FxAOAuthServerURL, "https://example.org/sync"
	})
	own := newServer(t, nil)
	for _, c := range []struct {
		s    *server
		want string
	}{
		{mozilla, `{"auth_server_base_url":"https://api.accounts.firefox.com","oauth_server_base_url":"https://oauth.accounts.firefox.com",` +
			`"pairing_server_base_uri":"wss://channelserver.services.mozilla.com","profile_server_base_url":"https://profile.accounts.firefox.com",` +
			`"sync_tokenserver_base_url":"https://example.org/sync"}`},
		{own, `{"auth_server_base_url":"ACCOUNTS","oauth_server_base_url":"ACCOUNTS","profile_server_base_url":"ACCOUNTS","sync_tokenserver_base_url":"` + own.URL + `"}`},
	} {
		must(t, c.s.db.Close())
		r := c.s.do(t, "GET", path)
		want := strings.ReplaceAll(c.want, "ACCOUNTS", c.s.service.Config().FxAOAuthServerURL)
		if r.status != 200 || r.body != want || r.head.Get("Content-Type") != "application/json" || r.head.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d %s %v\nwant %s", r.status, r.body, r.head, want)
		}
		if prefixed := c.s.do(t, "GET", "/sync"+path); c.s == mozilla && prefixed.body != want {
			t.Errorf("below the path of the public URL: %d %s", prefixed.status, prefixed.body)
		}
	}
	own.do(t, "POST", path).wantError(t, 405, "error", "body", "", "Method not allowed")
	own.do(t, "GET", path+"/").wantError(t, 404, "error", "url", "", "Not found")
}
