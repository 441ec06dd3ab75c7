package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/schemas"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/openapitest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// TestMain checks for leaked goroutines, except the test PostgreSQL server's.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("holdfast/internal/testdb.(*daemon).run.func1"))
}

var t0 = time.UnixMilli(1_790_000_000_123)

var quiet = slog.New(slog.DiscardHandler)

type setup struct {
	open    func(testing.TB) backend
	config  func(*ext.Config)
	store   func(*faulty)
	rates   *ext.Rates
	timeout time.Duration
	gate    *web.Gate
	memory  *web.Memory
	pace    web.Rate
	after   func(time.Duration) <-chan time.Time
	log     *slog.Logger
	alone   bool // do not check requests and responses against the description
}

type server struct {
	*httptest.Server

	internal *httptest.Server
	service  *ext.Service
	store    *faulty
	clock    *clock.Manual
	tokens   *bearer.Keyring
	client   *http.Client
	made     atomic.Int64
}

type backend interface {
	ext.Store
	inspection.Store
	ext.Registry
	ext.Installs
	ext.Tokens
	ext.Deletions
}

var engines = map[string]func(testing.TB) backend{
	"sqlite": openStore,
	"postgres": func(t testing.TB) backend {
		return postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations), postgres.Options{})
	},
}

// faulty adds failures and waits to the real store.
type faulty struct {
	backend
	apply  func(context.Context) error
	get    func(context.Context) error
	export func(after ext.Position) error
	wrote  func(ext.Write)
}

func (f *faulty) Apply(ctx context.Context, o ext.Owner, w ext.Write) (ext.Applied, error) {
	if f.apply != nil {
		if err := f.apply(ctx); err != nil {
			return ext.Applied{}, err
		}
	}
	if f.wrote != nil {
		f.wrote(w)
	}
	return f.backend.Apply(ctx, o, w)
}

func (f *faulty) Get(ctx context.Context, o ext.Owner, ns ext.Namespace, key ext.Key, now ext.Moment) (ext.Record, error) {
	if f.get != nil {
		if err := f.get(ctx); err != nil {
			return ext.Record{}, err
		}
	}
	return f.backend.Get(ctx, o, ns, key, now)
}

func (f *faulty) Export(ctx context.Context, o ext.Owner, q ext.ExportQuery) (ext.Page, error) {
	if f.export != nil {
		if err := f.export(q.After); err != nil {
			return ext.Page{}, err
		}
	}
	return f.backend.Export(ctx, o, q)
}

var signingKey = bearer.Key{ID: "own", Alg: bearer.HS256, Text: strings.Repeat("k", 32)}

func start(t testing.TB, with setup) *server {
	t.Helper()
	config := ext.DefaultConfig()
	if with.config != nil {
		with.config(&config)
	}
	if with.open == nil {
		with.open = openStore
	}
	s := &server{clock: clock.NewManual(t0), store: &faulty{backend: with.open(t)}}
	if with.store != nil {
		with.store(s.store)
	}
	var err error
	if s.tokens, err = bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{signingKey}, Leeway: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	validator := newValidator()
	s.service, err = ext.NewService(ext.Options{
		Store: s.store, Registry: s.store, Installs: s.store, Tokens: s.store, Deletions: s.store, Validators: validator, Documents: validator,
		Config: config, CursorKeys: [][]byte{[]byte(strings.Repeat("c", 32))}, Clock: s.clock.Now, After: with.after,
	})
	if err != nil {
		t.Fatal(err)
	}
	var rates *httpapi.Rates
	if with.rates != nil {
		if rates, err = httpapi.NewRates(*with.rates, s.clock.Now); err != nil {
			t.Fatal(err)
		}
	}
	h := &httpapi.Handler{Service: s.service, Tokens: s.tokens, Clock: s.clock.Now, Rates: rates, Timeout: with.timeout}
	r := &httpapi.Runner{Service: s.service, Tokens: s.tokens, Clock: s.clock.Now, Rates: rates, Timeout: with.timeout}
	s.Server = listen(t, web.Service{Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions}, with)
	s.internal = listen(t, web.Service{Serve: r.Serve, Error: httpapi.WriteInnerError, Route: httpapi.LabelRunner, Routes: httpapi.RunnerRoutes(), Conditions: web.CheckedByHandler}, with)
	s.client = s.Client()
	if !with.alone {
		s.client = &http.Client{Transport: &openapitest.Transport{
			Document: description(t), Next: s.Client().Transport, Report: func(err error) { t.Error(err) },
		}}
	}
	return s
}

var description = func() func(testing.TB) *openapitest.Document {
	var once sync.Once
	var d *openapitest.Document
	var err error
	return func(t testing.TB) *openapitest.Document {
		t.Helper()
		once.Do(func() {
			var text []byte
			if text, err = os.ReadFile("openapi.json"); err == nil {
				d, err = openapitest.Load(text)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}()

func listen(t testing.TB, service web.Service, with setup) *httptest.Server {
	t.Helper()
	service.Name = "extstorage"
	return webtest.Serve(t, service, web.Options{Log: with.log, Pace: with.pace, Gate: with.gate, Memory: with.memory})
}

func openStore(t testing.TB) backend {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations), sqlite.Options{})
}

type validator struct{ *schemas.Validator }

func newValidator() validator { return validator{schemas.NewValidator(1<<20, nil)} }

func (validator) Trial(context.Context, []byte, [][]byte) error { return nil }
