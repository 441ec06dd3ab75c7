package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/httpapi"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// t0 is not a multiple of a tick, so that tests notice a stamp that is not rounded down.
var t0 = time.UnixMilli(1790000000123)

const secret = "the master secret of these tests"

var quiet = slog.New(slog.DiscardHandler)

type setup struct {
	config  func(*ss.Config)
	store   func(ss.Store) ss.Store
	readers int
	secrets []string
	backoff func() time.Duration
	revoked func(ss.Owner) bool
	public  string
	pace    web.Rate
	gate    *web.Gate
	memory  *web.Memory
	log     *slog.Logger // nil for a log that fails the test on a server error
}

// server is the service on a real listener, with its own database and a manual clock.
type server struct {
	*httptest.Server
	clock *clock.Manual
	keys  *tokenlib.Keyring
	users atomic.Int64
	over  atomic.Pointer[ss.Used]
}

func start(t testing.TB, with setup) *server {
	t.Helper()
	conf := ss.DefaultConfig()
	if with.config != nil {
		with.config(&conf)
	}
	if errs := conf.Check(); len(errs) > 0 {
		t.Fatalf("the configuration is wrong: %v", errs)
	}
	store := ss.Store(openStore(t, with.readers))
	if with.store != nil {
		store = with.store(store)
	}
	if with.secrets == nil {
		with.secrets = []string{secret}
	}
	s := &server{clock: clock.NewManual(t0), keys: keyring(t, with.secrets...)}
	addresses, err := web.NewResolver(with.public, nil)
	if err != nil {
		t.Fatal(err)
	}
	service, err := ss.NewService(ss.Options{
		Store: store, Config: conf, Clock: s.clock.Now, Connections: 32,
		OverQuota: func(_ ss.Owner, _ string, used ss.Used) { s.over.Store(&used) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &httpapi.Handler{
		Service:  service,
		Keyring:  s.keys,
		Clock:    s.clock.Now,
		TimeSkew: conf.HawkTimeSkew,
		Backoff:  with.backoff,
		Revoked:  with.revoked,
	}
	s.Server = webtest.Listen(t, &web.Mux{
		Resolver: addresses, Options: web.Options{Log: with.log, Pace: with.pace, Gate: with.gate, Memory: with.memory},
		Default: web.Service{Name: "syncstorage", Serve: h.Serve, Error: h.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions},
	})
	s.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute // a client with Expect must wait for the response
	return s
}

func openStore(t testing.TB, readers int) *sqlite.Store {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{Readers: readers}, sqlite.Migrations))
}

func keyring(t testing.TB, secrets ...string) *tokenlib.Keyring {
	t.Helper()
	k, err := tokenlib.NewKeyring(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
