package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/postgres"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const cartSchema = `{
	"type": "object", "required": ["items"], "additionalProperties": false,
	"properties": {
		"items": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"$ref": "#/$defs/item"}},
		"coupon": {"type": "string", "maxLength": 40}
	},
	"$defs": {"item": {
		"type": "object", "required": ["itemId", "quantity"], "additionalProperties": false,
		"properties": {"itemId": {"type": "string", "maxLength": 64}, "quantity": {"type": "integer", "minimum": 1, "maximum": 99}}
	}}
}`

func shop() *guest.Profile {
	return &guest.Profile{Name: "shop", Types: "shop.guest.", Texts: true, MaxQuantity: 99, Tenant: tenant, Payload: json.RawMessage(cartSchema)}
}

func newShop(t testing.TB) *server {
	t.Helper()
	p := newParts(t)
	p.profile = shop()
	return serve(t, p)
}

func inShops(t *testing.T, test func(*testing.T, *server)) { onEngines(t, shop(), test) }

// onEngines runs a test on a profile, with SQLite and memory, and with PostgreSQL and Redis.
func onEngines(t *testing.T, profile *guest.Profile, test func(*testing.T, *server)) {
	onParts(t, func(_ testing.TB, p *parts) func(*testing.T, *server) {
		p.profile = profile
		return test
	})
}

// openRedis connects to the tests' Redis server.
func openRedis(t testing.TB) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: testdb.Redis(t), Timeout: 10 * time.Second, Probe: redis.Probe("test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// redisHot returns empty hot state: its keys start with a new prefix.
func redisHot(db *redisdb.DB) backend.Hot { return redis.New(db, "test-"+ident.New(), clock.System) }

// onParts is onEngines with a function that changes each server's parts and returns the test.
func onParts(t *testing.T, prepare func(testing.TB, *parts) func(*testing.T, *server)) {
	t.Run("sqlite and memory", func(t *testing.T) {
		t.Parallel()
		p := newParts(t)
		test := prepare(t, &p)
		test(t, serve(t, p))
	})
	t.Run("postgres and redis", func(t *testing.T) {
		t.Parallel()
		p := newParts(t)
		p.store = postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations), nil)
		p.hot = redisHot(openRedis(t))
		test := prepare(t, &p)
		test(t, serve(t, p))
	})
}

func TestShopList(t *testing.T) {
	t.Parallel()
	inShops(t, shopList)
}

func shopList(t *testing.T, s *server) {
	b := s.begin()
	added := b.want(201, http.MethodPost, "/wishlist", `{"itemId":"sku-4711"}`, `"tenantId":"`+tenant+`","itemId":"sku-4711","quantity":1,"source":"detail","addedAt":`)
	if at := added.header.Get("Location"); at != api+"/wishlist/sku-4711" {
		t.Errorf("Location: %s", at)
	}
	b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-4711","quantity":5}`, `"quantity":6`)
	b.want(200, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":3}`, `"quantity":3`)
	b.want(200, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":3,"note":"gift"}`, `"quantity":3`, `"note":"gift"`)
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"SKU-4711","quantity":99}`) // IDs are case-sensitive
	b.want(200, http.MethodGet, "/wishlist?limit=1", "", `"itemId":"SKU-4711","quantity":99`)
	b.want(200, http.MethodGet, "/wishlist", "", `"itemId":"sku-4711","quantity":3`)
	b.want(204, http.MethodDelete, "/wishlist/sku-4711", "")
	b.want(404, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":1}`, `"code":"not-found"`)
	b.want(201, http.MethodPost, "/session/recently-viewed", `{"itemId":"sku-4711"}`, `"itemId":"sku-4711"`)
	b.want(200, http.MethodGet, "/session/recently-viewed", "", `"itemId":"sku-4711"`)

	for body, part := range map[string]string{
		`{"itemId":"a\u0001b"}`:                         "itemId: expected 1 to 256 bytes of printable UTF-8",
		`{"itemId":".."}`:                               `"pointer":"/itemId"`,
		`{"itemId":"` + strings.Repeat("a", 257) + `"}`: `"pointer":"/itemId"`,
		`{}`:                              `"pointer":"/itemId"`,
		`{"itemId":"a","quantity":0}`:     "quantity: expected 1 to 99",
		`{"itemId":"a","quantity":100}`:   `"pointer":"/quantity"`,
		`{"itemId":"a","quantity":1.5}`:   `"pointer":"/quantity"`,
		`{"propertyId":"a"}`:              "expected tenantId, itemId, quantity, source, note, max",
		`{"itemId":"a","tenantId":"sku"}`: `"pointer":"/tenantId"`,
		`{"itemId":"a","source":"mail"}`:  `"pointer":"/source"`,
	} {
		b.want(422, http.MethodPost, "/wishlist", body, part)
	}
	for body, part := range map[string]string{`{}`: "note, quantity: expected", `{"quantity":0}`: "remove the entry instead", `{"quantity":-1}`: "expected 1 to 99"} {
		b.want(422, http.MethodPatch, "/wishlist/SKU-4711", body, part)
	}
	var got []string
	for _, e := range s.waiting() {
		payload := e.Payload[strings.Index(string(e.Payload), `"tenantId"`):]
		got = append(got, e.Topic+" "+strings.TrimPrefix(string(payload), `"tenantId":"`+tenant+`",`))
	}
	want := []string{
		`shop.guest.wishlist.added.v1 "itemId":"sku-4711","quantity":1,"source":"detail"}`,
		`shop.guest.wishlist.changed.v1 "itemId":"sku-4711","quantity":6,"source":"detail"}`,
		`shop.guest.wishlist.changed.v1 "itemId":"sku-4711","quantity":3,"source":"detail"}`,
		`shop.guest.wishlist.added.v1 "itemId":"SKU-4711","quantity":99,"source":"detail"}`,
		`shop.guest.wishlist.removed.v1 "itemId":"sku-4711","quantity":3,"source":"detail"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestShopHandoff(t *testing.T) {
	t.Parallel()
	inShops(t, shopHandoff)
}

func shopHandoff(t *testing.T, s *server) {
	b, r := s.begin(), newReceiver(t, s)
	const path = "/handoff/" + tenant + "/cart-1"
	const cart = `{"items":[{"itemId":"sku-4711","quantity":2}],"coupon":"MAY"}`
	send := func() answer {
		return b.send(http.MethodPost, path, `{"payload":{"items": [{"quantity":2.0,"itemId":"sku-4711"}], "coupon":"MAY"},"currency":"CHF"}`, "Idempotency-Key: cart")
	}
	first := send()
	b.check(first, 201, `"redirectUrl":"https://book.example/?t=bh1.`)
	if again := send(); again.status != 201 || again.body != first.body || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated: %d %s", again.status, again.body)
	}
	var m minted
	if err := json.Unmarshal([]byte(first.body), &m); err != nil {
		t.Fatal(err)
	}
	b.want(200, http.MethodGet, "/handoff", "", `"itemId":"cart-1","payload":`+cart+`,"currency":"CHF","locale":"en","status":"open"`)

	at, body := "/internal/handoff/"+m.HandoffID, `{"token":"`+m.Token+`"}`
	r.want(200, at+"/verify", body, `"payload":`+cart)
	r.want(200, at+"/consume", body, `"itemId":"cart-1","payload":`+cart)
	r.want(200, at+"/consume", body, `"payload":`+cart)
	r.want(409, at+"/consume", body, `"handoff-consumed"`, "Idempotency-Key: other")
	b.want(200, http.MethodGet, "/handoff", "", `"status":"consumed"`)

	for body, part := range map[string]string{
		`{}`:                                     `"pointer":"/payload"`,
		`{"payload":{"items":[]}}`:               `"pointer":"/payload/items"`,
		`{"payload":{"items":[{"itemId":"a"}]}}`: `"pointer":"/payload/items/0","code":"invalid","detail":"lacks a required member: quantity"`,
		`{"checkIn":"2036-12-30"}`:               "expected payload, currency, locale, campaign, ifOpen",
		`{"payload":{"items":[{"itemId":"a","quantity":1}]},"currency":"chf"}`: `"pointer":"/currency"`,
	} {
		b.want(422, http.MethodPost, path, body, part)
	}
	b.want(422, http.MethodPost, "/handoff/"+tenant+"/%00", `{"payload":{}}`, `"parameter":"itemId"`)
	b.want(404, http.MethodGet, "/hotels/"+property, "")

	var kinds []string
	for _, e := range s.waiting() {
		kinds = append(kinds, e.Topic)
		if e.Topic == "shop.guest.handoff.initiated.v1" && !strings.Contains(string(e.Payload), `"itemId":"cart-1","payload":`+cart+`,"currency":"CHF","locale":"en","keyId":`) {
			t.Errorf("event %s", e.Payload)
		}
	}
	slices.Sort(kinds)
	if want := []string{"shop.guest.bot_suspected.v1", "shop.guest.handoff.initiated.v1"}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

// TestShopNames checks that a cart is ordered once from two tabs.
func TestShopNames(t *testing.T) {
	t.Parallel()
	inShops(t, shopNames)
}

func shopNames(t *testing.T, s *server) {
	b, r := s.begin(), newReceiver(t, s)
	mint := func(status int, item string, quantity int, more string, parts ...string) (m minted) {
		t.Helper()
		a := b.want(status, http.MethodPost, "/handoff/"+tenant+"/"+item, fmt.Sprintf(`{"payload":{"items":[{"itemId":"sku-4711","quantity":%d}]}%s}`, quantity, more), parts...)
		if err := json.Unmarshal([]byte(a.body), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	consume := func(status int, m minted, part string) {
		t.Helper()
		r.want(status, "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`, part, "Idempotency-Key: "+m.HandoffID)
	}
	first := mint(201, "cart-1", 1, "")
	second := mint(201, "cart-1", 1, `,"ifOpen":"replace"`)
	kept := mint(200, "cart-1", 1, `,"ifOpen":"keep"`)
	if kept != second {
		t.Errorf("kept %+v, want %+v", kept, second)
	}
	third := mint(201, "cart-1", 2, `,"ifOpen":"keep"`) // another payload
	b.want(200, http.MethodGet, "/handoff?limit=1", "", `"status":"open"`)
	for _, m := range []minted{first, second} {
		consume(410, m, `"code":"handoff-voided"`)
		r.want(410, "/internal/handoff/"+m.HandoffID+"/verify", `{"token":"`+m.Token+`"}`, `"code":"handoff-voided"`)
	}
	if n := strings.Count(b.want(200, http.MethodGet, "/handoff", "").body, `"status":"voided"`); n != 2 {
		t.Errorf("%d handoffs are voided", n)
	}
	consume(200, third, `"quantity":2`)
	for _, more := range []string{"", `,"ifOpen":"keep"`} {
		mint(409, "cart-1", 2, more, `"code":"handoff-consumed"`, `"retriable":false`,
			`"handoff":{"handoffId":"`+third.HandoffID+`","tenantId":"`+tenant+`","itemId":"cart-1","payload":{"items":[{"itemId":"sku-4711","quantity":2}]}`,
			`"status":"consumed"`, `"consumedAt":"`)
	}
	consume(200, mint(201, "cart-2", 2, ""), "")
	mint(422, "cart-3", 1, `,"ifOpen":"void"`, `"pointer":"/ifOpen"`, "expected replace or keep")
	if want := []string{"handoff-voided", "handoff-voided", "consumed", "consumed"}; !slices.Equal(r.counts, want) {
		t.Errorf("counts %v, want %v", r.counts, want)
	}
}

// TestShopRemoveItems checks that a checkout removes the sold items from the cart, once.
func TestShopRemoveItems(t *testing.T) {
	t.Parallel()
	inShops(t, shopRemoveItems)
}

func shopRemoveItems(t *testing.T, s *server) {
	b, r := s.begin(), newReceiver(t, s)
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"apple","quantity":2}`)
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"pear","quantity":1}`)
	m := b.mint()
	b.want(200, http.MethodPatch, "/wishlist/apple", `{"quantity":5}`)
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"plum","quantity":1}`)
	at := "/internal/handoff/" + m.HandoffID
	const sold = `{"items":[{"itemId":"apple","quantity":2},{"itemId":"pear"},{"itemId":"plum","quantity":1}]}`
	r.want(409, at+"/remove-items", sold, `"code":"handoff-open"`)
	r.want(200, at+"/consume", `{"token":"`+m.Token+`"}`, "")
	r.want(404, at+"/remove-items", sold, `"not-found"`, "Authorization: Bearer "+r.token("other", ""))
	r.want(404, at+"/remove-items", sold, `"not-found"`, "Authorization: Bearer "+r.token("booking", property))
	r.want(401, at+"/remove-items", sold, `"unauthenticated"`, "Authorization")
	r.want(404, "/internal/handoff/bhd_x/remove-items", sold, `"not-found"`)
	for body, part := range map[string]string{
		`{"items":[]}`:                                     "expected 1 to 100 items",
		`{"items":[{"itemId":""}]}`:                        "/items/0/itemId",
		`{"items":[{"itemId":"a"},{"itemId":"a"}]}`:        "each item once",
		`{"items":[{"itemId":"a","quantity":0}]}`:          "expected 1 to 1000000000",
		`{"items":[{"itemId":"a","quantity":-1}]}`:         "expected 1 to 1000000000",
		`{"items":[{"itemId":"a","quantity":1000000001}]}`: "expected 1 to 1000000000",
		`{"token":"x"}`:                                    "unknown member",
	} {
		r.want(422, at+"/remove-items", body, part)
	}
	b.want(200, http.MethodGet, "/wishlist", "", `"apple"`, `"pear"`)
	for range 2 {
		r.want(200, at+"/remove-items", sold, `{"removed":1,"reduced":1}`)
		b.want(200, http.MethodGet, "/wishlist", "", `"itemId":"apple","quantity":3`, `"itemId":"plum","quantity":1`)
	}
	if text := b.want(200, http.MethodGet, "/wishlist", "").body; strings.Contains(text, "pear") {
		t.Errorf("the cart has %s", text)
	}
	r.want(409, at+"/remove-items", `{"items":[{"itemId":"plum"}]}`, `"code":"items-removed"`)
	hotel := newServer(t)
	newReceiver(t, hotel).want(404, at+"/remove-items", `{"items":[{"propertyId":"`+property+`"}]}`, `"not-found"`)
}

func TestShopDescription(t *testing.T) {
	t.Parallel()
	b := newShop(t).begin()
	text := b.want(200, http.MethodGet, "/openapi.json", "", `"/bff/consumer/v1/wishlist/{itemId}"`, `"urn:holdfast:guest:payload"`).body
	if again := b.want(200, http.MethodGet, "/openapi.json", "").body; again != text {
		t.Error("the description has changed")
	}
	for _, word := range []string{"propertyId", "/hotels/", "/facets/", "checkIn", "adults"} {
		if strings.Contains(text, word) {
			t.Errorf("the description of a shop has %s", word)
		}
	}
}

// TestShopTelemetry checks that telemetry names items in a shop and properties in a hotel search.
func TestShopTelemetry(t *testing.T) {
	t.Parallel()
	inShops(t, shopTelemetry)
}

func shopTelemetry(t *testing.T, s *server) {
	b := s.begin()
	b.want(202, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","itemId":"sku-4711"},{"page":"home"}]}`, `"mpv_`)
	b.want(202, http.MethodPost, "/telemetry/funnel", `{"items":[{"step":"handoff","itemId":"sku-4711"}]}`, `"cfe_`)
	b.want(422, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","itemId":".."}]}`, `"pointer":"/items/0/itemId"`)
	b.want(422, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","propertyId":"`+property+`"}]}`, `"pointer":"/items/0"`)
	newServer(t).begin().want(422, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","itemId":"sku-4711"}]}`, `"pointer":"/items/0"`)
	var items int
	for _, e := range s.waiting() {
		if strings.HasPrefix(e.Topic, "shop.guest.") && strings.Contains(string(e.Payload), `"itemId":"sku-4711"`) {
			items++
		}
	}
	if items != 2 {
		t.Errorf("%d events name the item, want 2", items)
	}
}
