package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/fxa"
	"holdfast/internal/tokenserver/httpapi"
	"holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/web"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// server runs SQLite, the real verifier with a stub accounts server, and package web.
type server struct {
	*httptest.Server
	service *tokenserver.Service
	keyring *tokenlib.Keyring
	hands   *clock.Manual
	log     *logbook
	db      *sqlitedb.DB
}

// accounts is an accounts server without usable keys, so it verifies every token. A token is its own response in JSON.
func accounts(t testing.TB) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jwks", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"keys":[{"fake":"RSA key"}]}`)
	})
	mux.HandleFunc("POST /v1/verify", func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Token string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		switch {
		case q.Token == "outage":
			w.WriteHeader(http.StatusBadGateway)
		case !strings.HasPrefix(q.Token, "{") || !json.Valid([]byte(q.Token)):
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, q.Token)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func newServer(t testing.TB, change func(*tokenserver.Options)) *server {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: filepath.Join(testdb.SQLite(t), "tokenserver.db")})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // some tests close it themselves
	set, err := sqlite.Migrations()
	must(t, err)
	_, err = db.Migrate(t.Context(), set)
	must(t, err)
	keyring, err := tokenlib.NewKeyring("master")
	must(t, err)

	s := &server{keyring: keyring, hands: clock.NewManual(t0), log: &logbook{}, db: db}
	cfg := tokenserver.DefaultConfig()
	cfg.FxAOAuthServerURL = accounts(t).URL
	cfg.FxAMetricsHashSecret, cfg.NodeType = "secret", "sqlite"
	o := tokenserver.Options{Config: cfg, Store: sqlite.New(db), Minter: minter{keyring}, Clock: s.hands.Now}
	if change != nil {
		change(&o)
	}
	verifier, err := fxa.New(o.Config, s.hands.Now)
	must(t, err)
	t.Cleanup(verifier.Close)
	o.Verifier = verifier
	s.service, err = tokenserver.NewService(o)
	must(t, err)
	_, err = s.service.EnsureNode(t.Context())
	must(t, err)

	resolver, err := web.NewResolver(o.PublicURL, nil)
	must(t, err)
	h := &httpapi.Handler{Service: s.service, Clock: s.hands.Now}
	service := web.Service{Name: "tokenserver", Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.Label}
	s.Server = httptest.NewServer(&web.Mux{Resolver: resolver, Options: web.Options{Log: slog.New(slog.NewTextHandler(s.log, nil))}, Default: service})
	t.Cleanup(s.Close)
	return s
}

type minter struct{ keyring *tokenlib.Keyring }

func (m minter) Mint(c tokenserver.Claims) (token, key string, err error) {
	return m.keyring.Mint(tokenlib.Claims{
		UID: c.UID, FxAUID: c.FxAUID, FxAKID: c.FxAKID, Node: c.Node, Expires: c.Expires,
		HashedFxAUID: c.HashedFxAUID, HashedDeviceID: c.HashedDeviceID, Origin: "holdfast",
	})
}

type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type reply struct {
	status int
	head   http.Header
	body   string
}

// do sends a request. headers alternate names and values.
func (s *server) do(t testing.TB, method, path string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header[http.CanonicalHeaderKey(headers[i])] = []string{headers[i+1]}
	}
	res, err := s.Client().Do(req)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return reply{res.StatusCode, res.Header, string(body)}
}

func token(user string, generation int64) string {
	b, err := json.Marshal(map[string]any{"user": user, "scope": []string{tokenserver.Scope}, "generation": generation})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (s *server) signIn(t testing.TB, user string, generation int64, keyID string) reply {
	t.Helper()
	return s.do(t, "GET", "/1.0/sync/1.5", "Authorization", "Bearer "+token(user, generation), "X-KeyID", keyID)
}

type grant struct {
	ID, Key      string
	UID          int64
	APIEndpoint  string `json:"api_endpoint"`
	Duration     int64
	HashedFxAUID string `json:"hashed_fxa_uid"`
	HashAlg      string
	NodeType     string `json:"node_type"`
}

func (r reply) grant(t testing.TB) grant {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	var g grant
	must(t, json.Unmarshal([]byte(r.body), &g))
	return g
}

func (r reply) wantError(t testing.TB, status int, what, location, name, description string) {
	t.Helper()
	want := fmt.Sprintf(`{"status":%q,"errors":[{"location":%q,"name":%q,"description":%q}]}`, what, location, name, description)
	if r.status != status || r.body != want || r.head.Get("Content-Type") != "application/json" || r.head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %s %v\nwant %d %s", r.status, r.body, r.head, status, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
