package httpapi_test

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

type parts struct {
	store      backend.Store
	hot        backend.Hot
	clock      clock.Clock
	cookies    *guest.Cookies
	limits     guest.Limits
	algorithm  handoffs.Algorithm
	life       time.Duration // handoff lifetime; 0: 10 minutes
	profile    *guest.Profile
	users      guest.Users
	source     catalogue.Source
	fetcher    catalogue.Fetcher
	bots       *bots.Config // nil: no scoring
	nestErrors bool
	samples    telemetry.SampleRates
	recorded   func(kind, result string, n int)
	url        string // public URL; "": the request's address
}

type services struct {
	parts
	guests    *guest.Service
	tenants   *tenants.Service
	catalogue *catalogue.Service
	telemetry *telemetry.Service
	handoffs  *handoffs.Service
	bots      *bots.Service
}

type server struct {
	services
	t    testing.TB
	base string
}

func newParts(t testing.TB) parts {
	t.Helper()
	return parts{
		store: sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations), clock.System, nil), hot: memory.New(clock.System, 1<<20),
		clock: clock.System, cookies: guest.NewCookies(strings.Repeat("s", 32), nil), source: builtin.New(),
	}
}

func newServer(t testing.TB) *server {
	t.Helper()
	return serve(t, newParts(t))
}

// at serves the same data with other parts.
func (s *server) at(change func(*parts)) *server {
	p := s.parts
	change(&p)
	return serve(s.t, p)
}

func serve(t testing.TB, p parts) *server {
	t.Helper()
	s := &server{services: p.open(t), t: t}
	t.Cleanup(func() { checkEvents(t, s) })
	h := &httpapi.Handler{
		Guests: s.guests, Catalogue: s.catalogue, Telemetry: s.telemetry, Handoffs: s.handoffs, Bots: s.services.bots,
		NestErrors: p.nestErrors, HotTime: 10 * time.Second, // for a busy machine, on which Redis is slow
	}
	resolver, err := web.NewResolver(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	service := web.Service{Serve: h.Serve, Error: h.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(h.Guests.Profile()), Conditions: h.Conditions}
	s.base = webtest.Listen(t, &web.Mux{Resolver: resolver, Options: web.Options{Log: slog.New(slog.DiscardHandler)}, Default: service}).URL
	return s
}

func (p parts) open(t testing.TB) services {
	t.Helper()
	secret := strings.Repeat("h", 32)
	keys, err1 := handoffs.NewKeys(p.store, secret, nil, "holdfast")
	hasher, err2 := guest.NewHasher(secret, nil)
	challenges, err3 := bots.NewChallenges(secret, nil, 8)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	s := services{parts: p, guests: guest.NewService(guest.Options{Store: p.store, Hot: p.hot, Cookies: p.cookies, Clock: p.clock, Profile: p.profile, Users: p.users, Limits: p.limits})}
	s.tenants = tenants.New(tenants.Options{Store: p.store, Hot: p.hot, Clock: p.clock})
	s.catalogue = catalogue.New(catalogue.Options{Profile: p.profile, Fetcher: p.fetcher, Source: p.source, Hot: p.hot, Clock: p.clock, Suspended: s.tenants.Suspended})
	s.telemetry = telemetry.New(telemetry.Options{Guests: s.guests, Store: p.store, Clock: p.clock, Samples: p.samples, Recorded: p.recorded})
	if p.bots != nil {
		s.bots = bots.New(bots.Options{Store: p.store, Hot: p.hot, Clock: p.clock, Config: *p.bots, Hasher: hasher, Challenges: challenges})
	}
	s.handoffs = handoffs.New(handoffs.Options{
		Guests: s.guests, Store: p.store, Catalogue: s.catalogue, Clock: p.clock, Bots: s.bots,
		Keys: keys, Hasher: hasher, Life: cmp.Or(p.life, 10*time.Minute), Restored: func() { t.Error("restored") },
		Site: func(of string) handoffs.BookingSite {
			if of == property { // this tenant has no booking site
				return handoffs.BookingSite{}
			}
			return handoffs.BookingSite{URL: "https://book.example/?t={token}", Algorithm: p.algorithm, Fingerprint: handoffs.MismatchRefuse, IP: handoffs.MismatchMark}
		},
	})
	return s
}
