package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/copying"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/handoffs"
	guestpg "holdfast/internal/guest/postgres"
	guestsqlite "holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func guestStore(t testing.TB, url string) backend.Store {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return guestsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil), clock.System, nil)
	}
	return guestpg.New(opened.Postgres(t, pgdb.Options{URL: url}, nil), nil)
}

// guestRows fills every column, with values that engines could change: JSON published unchanged, numbers with many
// digits, bytes, dates, and microseconds.
const guestRows = `
	INSERT INTO bff_consumer_outbox (position, id, topic, ordering_key, subject, payload, headers, retention_class, created_at, published_at, attempts,
			last_error, next_attempt_at, dead_at) VALUES
		(7, 'evt_01ARZ3NDEKTSV4RRFFQ69G5FA7', 'a.v1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', 's', '{"b": 1.0,  "a":"\u00e9\u0041", "b": 2}', '{"n":12345678901234567890.10}',
			'operational', 1700000000000007, NULL, 3, 'no "route"', 1700000000000009, NULL),
		(5, 'evt_01ARZ3NDEKTSV4RRFFQ69G5FA5', 'a.v1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', 's', 'null', '{}', 'audit', 1700000000000005, NULL, 0, NULL, NULL, NULL),
		(6, 'evt_01ARZ3NDEKTSV4RRFFQ69G5FA6', 'a.v1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAW', 's', '[]', '{}', 'audit', 1700000000000006, NULL, 9, 'x', NULL, 1700000000000008),
		(4, 'evt_01ARZ3NDEKTSV4RRFFQ69G5FA4', 'a.v1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', 's', '1e2', '{}', 'audit', 1700000000000004, 1700000000000010, 1, NULL, NULL, NULL),
		(9, 'evt_01ARZ3NDEKTSV4RRFFQ69G5FA9', 'a.v1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', 's', '0', '{}', 'audit', 1700000000000009, NULL, 0, NULL, NULL, NULL);
	DELETE FROM bff_consumer_outbox WHERE position = 9;
	INSERT INTO bff_consumer_inbox VALUES ('/a', 'b', 'c', 1700000000000001, NULL, zeroblob(32)), ('/a', 'ü', 'c', 1700000000000001, 1700000000000002, zeroblob(32));
	INSERT INTO bff_consumer_inbox_quarantine VALUES ('/a', 'b', 'c', 1700000000000001, zeroblob(32), x'00ff', 'r', 1700000000000002),
		('/a', 'b', 'c', 1700000000000001, CAST('0123456789abcdef0123456789abcdef' AS BLOB), zeroblob(0), 'r', 1700000000000003);
	INSERT INTO bff_consumer_handoff_replay_log (id, guest_session_id, tenant_id, property_id, item_id, payload, currency, locale, hmac_key_id, fingerprint_hash, ip_hash,
			minted_at, expires_at) VALUES
		('bhd_01ARZ3NDEKTSV4RRFFQ69G5FA3', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '42222222-2222-4333-8444-555555555555',
			'sku-4711', '{"b":1,"a":"ü"}', 'EUR', 'de', 'k1', x'01', x'02', 1700000000000001, 1700000000000002);
	INSERT INTO bff_consumer_handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale,
			source_campaign, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, consumed, consumed_at, consumed_by, consume_key, erased_at) VALUES
		('bhd_01ARZ3NDEKTSV4RRFFQ69G5FA1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '22222222-2222-4333-8444-555555555555',
			'2024-02-29', '9999-12-31', 2, 0, 1, 'EUR', 'de', '{"utm_source":"ü"}', 'k1', x'01', x'', 1700000000000001, 1700000000000002, 1, 1700000000000001, 'site', 'key', NULL),
		('bhd_01ARZ3NDEKTSV4RRFFQ69G5FA2', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '22222222-2222-4333-8444-555555555555',
			'0001-01-01', '2024-03-01', 1, 3, 2, 'USD', '', NULL, 'k1', x'00', x'02', 1700000000000001, 1700000000000002, 0, NULL, NULL, NULL, 1700000000000003);
	INSERT INTO bff_consumer_wishlist_anonymous VALUES
		('wsh_01ARZ3NDEKTSV4RRFFQ69G5FA1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '22222222-2222-4333-8444-555555555555', 'map',
			'a ''note'' ü', 1700000000000001, NULL, NULL, NULL),
		('wsh_01ARZ3NDEKTSV4RRFFQ69G5FA2', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '32222222-2222-4333-8444-555555555555', 'list',
			NULL, 1700000000000001, 1700000000000002, NULL, NULL),
		('wsh_01ARZ3NDEKTSV4RRFFQ69G5FA3', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '42222222-2222-4333-8444-555555555555', 'list',
			NULL, 1700000000000003, NULL, 'sku-4711', 3);
	INSERT INTO bff_consumer_session_seen VALUES ('gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '2024-02-29');
	INSERT INTO bff_consumer_bot_score_log VALUES ('a', NULL, x'01', x'02', x'03', 0.3, 'human', '{"x":0.1}', 'none', 1700000000000001),
		('b', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', x'', x'02', x'03', 0.00001, 'bot', '{}', 'challenge', 1700000000000001), ('c', NULL, x'', zeroblob(0), x'', 1, 'bot', '{}', 'none', 0);
	INSERT INTO bff_consumer_idempotency_keys VALUES ('` + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + `', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'POST /x',
		zeroblob(32), 201, 'application/json', '/x', CAST('{"b": 1.0,  "a":"\u00e9"}' AS BLOB), 1700000000000001, 1700000000000002);
	INSERT INTO bff_consumer_tenant_suspended_cache VALUES ('11111111-2222-4333-8444-555555555555', 1, 1700000000000001, 'r', 1700000000000002, 'e', 1700000000000003),
		('21111111-2222-4333-8444-555555555555', 0, 1700000000000001, '', 1700000000000002, 'e', 1700000000000003);
	INSERT INTO bff_consumer_handoff_keys VALUES ('k1', x'01', 'verify-only', 1700000000000001, 1700000000000002, NULL, ''),
		('k2', x'02ff', 'active', 1700000000000002, NULL, NULL, ''), ('k0', x'', 'retired', 1600000000000001, 1700000000000000, 1700000000000001, ''),
		('k3', x'03', 'active', 1700000000000000, NULL, NULL, '11111111-2222-4333-8444-555555555555');`

// TestCopyGuestKeepsEverything copies from SQLite to PostgreSQL and back, and compares the SQLite databases.
func TestCopyGuestKeepsEverything(t *testing.T) {
	t.Parallel()
	first, server, last := sqliteURL(t), testdb.PostgresDatabase(t), sqliteURL(t)
	to := newCopy(t, "guest", first, server)
	execute(t, first, guestRows)
	back := newCopy(t, "guest", server, last)
	for _, c := range []*copying.Copy{to, back} {
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, c)
	}
	wantEqual(t, &copying.Copy{Service: "guest", Groups: to.Groups, Source: to.Source, Target: back.Target})
	// Copies compare the tables that they copy, so a table that they forgot is found by its rows.
	services := app.Services()
	for _, g := range services[slices.IndexFunc(services, func(s service.Service) bool { return s.Name == "guest" })].Tables {
		for _, table := range g.Tables {
			if got, want := rowsIn(t, back.Target, table), rowsIn(t, to.Source, table); got != want {
				t.Errorf("%s has %d rows, want %d", table.Name, got, want)
			}
		}
	}
	for name, url := range map[string]string{"postgres": server, "sqlite": last} {
		if name == "postgres" {
			if err := back.Source.Rows(nil).Reopen(t.Context(), "guest", to.Groups); err != nil {
				t.Fatal(err)
			}
		}
		store := guestStore(t, url)
		_, err := store.AppendEvents(t.Context(), []telemetry.SessionEvent{{Session: "gms_01ARZ3NDEKTSV4RRFFQ69G5FAV", Event: guest.Event{
			ID: "evt_01ARZ3NDEKTSV4RRFFQ69G5FAZ", Type: "z.v1", Subject: "s", Retention: guest.Operational, Payload: []byte("{}"), At: time.Now(),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		waiting, err := store.Outbox().ListWaiting(t.Context(), 0, 10)
		var got []string
		for _, e := range waiting {
			got = append(got, fmt.Sprintf("%d %s", e.Position, e.Name))
		}
		// The last assigned number is 9.
		if want := []string{"5 evt_01ARZ3NDEKTSV4RRFFQ69G5FA5", "7 evt_01ARZ3NDEKTSV4RRFFQ69G5FA7", "10 evt_01ARZ3NDEKTSV4RRFFQ69G5FAZ"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: waiting events: %v, %v; want %v", name, got, err, want)
		}
		keys, err := handoffs.NewKeys(store, strings.Repeat("s", 32), nil, "holdfast")
		if err != nil {
			t.Fatal(err)
		}
		if restored, err := keys.Settle(t.Context(), nil); err != nil || restored {
			t.Errorf("%s: the keys were replaced: %v, %v", name, restored, err)
		}
	}
}

func rowsIn(t *testing.T, db *engine.Database, table *rows.Table) (n int64) {
	t.Helper()
	if err := db.Rows(nil).View(t.Context(), func(v rows.View) (err error) { n, err = v.Count(table, 0); return err }); err != nil {
		t.Fatal(err)
	}
	return n
}

type guestUser struct {
	t       *testing.T
	store   backend.Store
	session guest.ID
	n       int
	wishes  map[string]string
	events  []string

	last   func() (result string, replayed bool, err error)
	result string
}

func guestProperty(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }

func (u *guestUser) mutation(n int) guest.Mutation {
	return guest.Mutation{Session: u.session, Route: "POST /test", Key: fmt.Sprint("key-", n), Digest: sha256.Sum256([]byte{byte(n)})}
}

func ran[R any](o guest.Once[R], err error) (result string, replayed bool, _ error) {
	text, _ := json.Marshal(o.Result)
	return string(text), o.Replayed, err
}

func (u *guestUser) work(n int) error {
	ctx := u.t.Context()
	for range n {
		u.n++
		m, property, event := u.mutation(u.n), guestProperty(u.n%5), guest.NewID(guest.EventPrefix, clock.System())
		_, isLive := u.wishes[property]
		wishes, appends := maps.Clone(u.wishes), true
		var do func() (string, bool, error)
		switch note := fmt.Sprint("note ", u.n); {
		case u.n%11 == 0:
			clear(wishes)
			appends = false
			do = func() (string, bool, error) { return ran(u.store.Clear(ctx, guest.Clear{Mutation: m})) }
		case u.n%7 == 0:
			r := telemetry.Record{Mutation: m, IDs: []guest.ID{event}, Events: []guest.Event{
				{ID: event, Type: "t.v1", Subject: "s", Retention: guest.Operational, Payload: []byte("{}")},
			}}
			do = func() (string, bool, error) { return ran(u.store.Record(ctx, r)) }
		case isLive && u.n%3 == 0:
			delete(wishes, property)
			r := guest.RemoveWish{Mutation: m, Item: property, Event: event}
			do = func() (string, bool, error) { return ran(u.store.RemoveWish(ctx, r)) }
		case isLive:
			wishes[property], appends = note, false
			do = func() (string, bool, error) {
				return ran(u.store.ChangeWish(ctx, guest.ChangeWish{Mutation: m, Item: property, Note: new(note)}))
			}
		default:
			wishes[property] = note
			w := guest.Wish{ID: guest.NewID(guest.WishPrefix, clock.System()), Tenant: guestProperty(0), Item: property, Source: "list", Note: note}
			do = func() (string, bool, error) {
				return ran(u.store.AddWish(ctx, guest.AddWish{Mutation: m, Wish: w, Event: event}))
			}
		}
		result, _, err := do()
		if err != nil {
			return err
		}
		u.last, u.result = do, result
		if u.wishes = wishes; appends {
			u.events = append(u.events, string(event))
		}
	}
	return nil
}

func (u *guestUser) check() {
	u.t.Helper()
	all, err := u.store.Wishes(u.t.Context(), u.session, nil, 10)
	got := map[string]string{}
	for _, w := range all {
		got[w.Item] = w.Note
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(u.wishes) {
		u.t.Errorf("wishes are %v, %v; want %v", got, err, u.wishes)
	}
	waiting, err := u.store.Outbox().ListWaiting(u.t.Context(), 0, 10_000)
	var events []string
	for _, e := range waiting {
		events = append(events, e.Name)
	}
	if err != nil || !slices.Equal(events, u.events) {
		u.t.Errorf("events are %v, %v; want %v", events, err, u.events)
	}
	if result, replayed, err := u.last(); err != nil || !replayed || result != u.result {
		u.t.Errorf("the last result is %s (replayed: %v), %v; want %s", result, replayed, err, u.result)
	}
}

// TestCopyGuest interrupts a copy at each step, while a guest uses the service.
func TestCopyGuest(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string]struct{ from, to func(testing.TB) string }{
		"sqlite to postgres": {sqliteURL, testdb.PostgresDatabase},
		"postgres to sqlite": {testdb.PostgresDatabase, sqliteURL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := pair.from(t), pair.to(t)
			c := newCopy(t, "guest", source, target)
			u := &guestUser{t: t, store: guestStore(t, source), session: guest.NewID(guest.SessionPrefix, clock.System()), wishes: map[string]string{}}
			use := func() {
				if err := u.work(5); err != nil {
					if !errcode.Is(err, errcode.Unavailable) {
						t.Error(err)
					}
					u.n--
				}
			}
			use()
			copyWithCrashes(t, c, use)
			wantEqual(t, c)
			u.check()
			u.store = guestStore(t, target)
			u.check()
			use()
			u.check()
		})
	}
}
