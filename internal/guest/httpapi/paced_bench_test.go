package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/postgres"
	guestsqlite "holdfast/internal/guest/sqlite"
	"holdfast/internal/ident"
	"holdfast/internal/inbox"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/web/webtest"
)

// benchServer serves guests, and the booking sites that consume their handoffs.
type benchServer struct {
	*server

	sites    *receiver
	token    string // booking site's token
	sessions []*browser
}

func newBenchServer(b *testing.B, p parts, sessions int) *benchServer {
	b.Helper()
	s := &benchServer{server: serve(b, p)}
	s.sites = newReceiver(b, s.server)
	s.token = s.sites.token("booking", "")
	for range sessions {
		s.sessions = append(s.sessions, s.begin())
	}
	return s
}

// request sends a request without checking its answer against the API description, which takes longer than the server.
func (s *benchServer) request(base, method, path, body, header string) (string, error) {
	r := webtest.Request(s.t, base, method, path, strings.NewReader(body))
	webtest.SetHeaders(r, "Idempotency-Key: "+ident.New(), header)
	resp, err := webtest.Transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %d %s", path, resp.StatusCode, answer)
	}
	return string(answer), err
}

// guest sends a request as the i-th guest.
func (s *benchServer) guest(i int, method, path, body string) (string, error) {
	return s.request(s.base, method, api+path, body, "Cookie: gms="+s.sessions[i%len(s.sessions)].cookie)
}

func (s *benchServer) read(i int) error {
	_, err := s.guest(i, http.MethodGet, "/session", "")
	return err
}

func (s *benchServer) addWish(i int) error {
	_, err := s.guest(i, http.MethodPost, "/wishlist", s.wish(s.nth(i)))
	return err
}

func (s *benchServer) mint(i int) (m minted, err error) {
	text, err := s.guest(i, http.MethodPost, s.mintPath(), s.mintBody())
	if err == nil {
		err = json.Unmarshal([]byte(text), &m)
	}
	return m, err
}

func (s *benchServer) consume(m minted) error {
	_, err := s.request(s.sites.base, http.MethodPost, "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`, "Authorization: Bearer "+s.token)
	return err
}

// BenchmarkGuests sends 200 requests per second from 200 guests, and reports the median and 99th percentile latency,
// measured from the time when each request is due. Use -benchtime 1000x for 5 s.
func BenchmarkGuests(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, hot := range []string{"memory", "redis"} {
			b.Run(engine+"/"+hot, func(b *testing.B) {
				p := newParts(b)
				if engine == "postgres" {
					p.store = postgres.New(opened.Postgres(b, pgdb.Options{URL: testdb.DurablePostgres(b).URL()}, postgres.Migrations), nil)
				}
				if hot == "redis" {
					p.hot = redisHot(openRedis(b))
				}
				s := newBenchServer(b, p, 200)
				b.Run("read a session", func(b *testing.B) { paced(b, s.read) })
				b.Run("add to the wishlist", func(b *testing.B) { paced(b, s.addWish) })
				b.Run("mint a handoff", func(b *testing.B) {
					paced(b, func(i int) error {
						_, err := s.mint(i)
						return err
					})
				})
				b.Run("consume a handoff", func(b *testing.B) {
					all := make([]minted, b.N)
					for i := range all {
						var err error
						if all[i], err = s.mint(i); err != nil {
							b.Fatal(err)
						}
					}
					paced(b, func(i int) error { return s.consume(all[i]) })
				})
			})
		}
	}
}

// paced calls send b.N times, 200 times per second, on 16 goroutines.
func paced(b *testing.B, send func(i int) error) {
	b.Helper()
	took, begun := make([]time.Duration, b.N), time.Now()
	testdb.RunBench(b, 16, func(_ context.Context, i int64) error {
		due := begun.Add(time.Duration(i) * time.Second / 200)
		time.Sleep(time.Until(due))
		err := send(int(i - 1))
		took[i-1] = time.Since(due)
		return err
	})
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTableSize reports each table's bytes per row, and its indexes', after b.N wishes, handoffs and received
// events, ten per guest. All requests are scored, and all events are published.
func BenchmarkTableSize(b *testing.B) {
	config := bots.DefaultConfig()
	config.SampleHumans, config.CadenceWeight, config.SessionsWeight, config.HeadersWeight, config.HistoryWeight = 1, 0.2, 0.1, 0.1, 0.05 // refuse none
	measure := func(b *testing.B, p parts) {
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		p.bots = &config
		s := newBenchServer(b, p, max(1, b.N/10))
		for i := range b.N {
			must(s.addWish(i))
			m, err := s.mint(i)
			must(err)
			must(s.consume(m))
			_, err = s.tenants.Receive(b.Context(), inbox.Event{
				Source: "/tenants", ID: ident.New(), Type: "tenant.reinstated.v1", Time: time.Now(), Body: fmt.Appendf(nil, `{"tenantId":%q}`, s.nth(i)),
			})
			must(err)
		}
		b.ReportMetric(0, "ns/op")
	}
	report := func(b *testing.B, sizes map[string]opened.Size) {
		for table, s := range sizes {
			if s.Rows >= int64(b.N/10) {
				b.ReportMetric(float64(s.Data/s.Rows), "B-"+table)
				b.ReportMetric(float64(s.Indexes/s.Rows), "B-"+table+"-indexes")
			}
		}
	}
	b.Run("sqlite", func(b *testing.B) {
		db, p := opened.SQLite(b, sqlitedb.Options{}, guestsqlite.Migrations), newParts(b)
		p.store = guestsqlite.New(db, clock.System, nil)
		measure(b, p)
		if err := db.Write(b.Context(), "test", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, `UPDATE bff_consumer_outbox SET published_at = 1`) }); err != nil {
			b.Fatal(err)
		}
		report(b, opened.SQLiteSizes(b, db))
	})
	b.Run("postgres", func(b *testing.B) {
		url, p := testdb.PostgresDatabase(b), newParts(b)
		db := opened.Postgres(b, pgdb.Options{URL: url}, postgres.Migrations)
		p.store = postgres.New(db, nil)
		measure(b, p)
		testdb.Script(b, url, `UPDATE bff_consumer.outbox SET published_at = now()`)
		report(b, opened.PostgresSizes(b, db))
	})
}
