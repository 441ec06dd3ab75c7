//test:unraced the race detector makes it ten times as slow

package guest_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client/guest"
	"holdfast/internal/openapitest"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

const (
	tenant   = "11111111-2222-4333-8444-555555555555"
	property = "22222222-2222-4333-8444-555555555555"
	file     = "../../internal/guest/httpapi/openapi.json"
)

// TestGenerated compares the checksum of the API description.
func TestGenerated(t *testing.T) {
	t.Parallel()
	description, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.ReadFile("openapi.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprintf("%x", sha256.Sum256(description)); !strings.HasPrefix(string(from), is) {
		t.Errorf("the API description has changed since the types were generated: run make generate")
	}
}

// site is a server whose responses are checked against the API description.
type site struct {
	*binary.Server
	description *openapitest.Document
}

func start(t *testing.T) *site {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	return &site{binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATES__TELEMETRY=1", "HOLDFAST_GUEST__RATES__BOOTSTRAP=1000", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0",
		"HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__HONEYPOT=offers", "HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0", "HOLDFAST_GUEST__BOTS__CHALLENGE_BITS=10",
		"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/{tenantId}/{propertyId}#{token}"), d}
}

// wire is a transport that counts requests and can replace responses by errors.
type wire struct {
	agent string // User-Agent; "": Go's
	next  http.RoundTripper
	sent  atomic.Int64
	lose  func(*http.Request) error
	nests bool // as with guest.nested_errors
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.sent.Add(1)
	if w.agent != "" {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", w.agent)
	}
	resp, err := w.next.RoundTrip(r)
	if err == nil && w.nests && resp.StatusCode >= http.StatusBadRequest {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(`{"error":`), resp.Body, strings.NewReader("}\n")), resp.Body}
	}
	if err != nil || w.lose == nil {
		return resp, err
	}
	if err := w.lose(r); err != nil {
		_, _ = io.Copy(io.Discard, resp.Body) // wait until the server has finished the request
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func losing() func(*http.Request) error {
	var lost atomic.Bool
	return func(*http.Request) error {
		if lost.Swap(true) {
			return nil
		}
		return errors.New("lost")
	}
}

func (s *site) wire(t *testing.T) *wire {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &wire{next: &openapitest.Transport{Document: s.description, Next: transport, Report: func(err error) { t.Error(err) }}}
}

func (s *site) browser(t *testing.T) (*guest.Client, *wire) {
	t.Helper()
	c, err := guest.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := s.wire(t)
	c.HTTP = &http.Client{Transport: w, Jar: jar}
	return c, w
}

func (s *site) booking(t *testing.T, name string) (*guest.Receiver, *wire) {
	t.Helper()
	internal := s.AwaitOutput(`(?m)^  internal +(\S+)$`)[1]
	r, err := guest.NewReceiver(internal, guest.StaticToken(strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", name))))
	if err != nil {
		t.Fatal(err)
	}
	w := s.wire(t)
	r.HTTP = &http.Client{Transport: w}
	return r, w
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func collect[T any](t *testing.T, items iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for item, err := range items {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item)
	}
	return all
}

func wish(property string) guest.WishRequest {
	return guest.WishRequest{TenantID: tenant, PropertyID: property, Source: guest.SourceList}
}

func stay() guest.MintRequest {
	currency, locale := "EUR", "de-AT"
	return guest.MintRequest{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2, Currency: &currency, Locale: &locale}
}

func TestClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]func(*testing.T, *site){
		"session": testSession, "wishlist": testWishlist, "handoff": testHandoff, "challenge": testChallenge, "telemetry": testTelemetry, "catalogue": testCatalogue, "lost answers": testLostAnswers, "errors": testErrors, "nested errors": testNestedErrors, "rate limit": testRateLimit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func testSession(t *testing.T, s *site) {
	c, w := s.browser(t)
	ctx := t.Context()
	locale := "de-AT"
	if got := must[guest.Session](t)(c.SetPreferences(ctx, guest.PreferencesPatch{Locale: &locale})); *got.Preferences.Locale != locale || got.Preferences.Currency != nil {
		t.Errorf("%+v", got)
	}
	if w.sent.Load() != 3 { // the refused request, which started a session, its retry, and the read
		t.Errorf("%d requests", w.sent.Load())
	}
	first := must[guest.Session](t)(c.Begin(ctx))
	if got := must[guest.Session](t)(c.Session(ctx)); *got.Preferences.Locale != locale || !got.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("%+v, begun %+v", got, first)
	}
	must[guest.Viewed](t)(c.AddViewed(ctx, tenant, property))
	if all := must[[]guest.Viewed](t)(c.Viewed(ctx)); len(all) != 1 || all[0].PropertyID != property {
		t.Errorf("viewed: %+v", all)
	}
	if all := must[[]guest.Searched](t)(c.History(ctx)); len(all) != 0 {
		t.Errorf("history: %+v", all)
	}
	if err := c.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if got := must[guest.Session](t)(c.Session(ctx)); got.Preferences.Locale != nil {
		t.Errorf("after clear: %+v", got)
	}
}

func testWishlist(t *testing.T, s *site) {
	c, _ := s.browser(t)
	ctx := t.Context()
	first := must[guest.Wish](t)(c.AddWish(ctx, wish(property)))
	if again := must[guest.Wish](t)(c.AddWish(ctx, wish(property))); again != first {
		t.Errorf("%+v, want %+v", again, first)
	}
	if noted := must[guest.Wish](t)(c.SetNote(ctx, property, "äöü")); noted.Note == nil || *noted.Note != "äöü" {
		t.Errorf("%+v", noted)
	}
	if all := collect(t, c.Wishlist(ctx)); len(all) != 1 || all[0].ID != first.ID {
		t.Errorf("%+v", all)
	}
	if err := errors.Join(c.RemoveWish(ctx, property), c.RemoveWish(ctx, property)); err != nil {
		t.Error(err)
	}
	if all := collect(t, c.Wishlist(ctx)); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func testCatalogue(t *testing.T, s *site) {
	c, _ := s.browser(t)
	ctx := t.Context()
	country := "AT"
	found := must[guest.SearchResults](t)(c.Search(ctx, guest.SearchQuery{Country: &country}))
	if len(found.Items) == 0 || found.Total < len(found.Items) {
		t.Fatalf("%+v", found)
	}
	if h := must[[]guest.Searched](t)(c.History(ctx)); len(h) != 1 || h[0].SearchID != found.SearchID {
		t.Errorf("history: %+v", h)
	}
	if page := must[guest.SearchResults](t)(c.Continue(ctx, found.SearchID, 1)); page.Items[0].PropertyID != found.Items[0].PropertyID {
		t.Errorf("%+v", page)
	}
	id := found.Items[0].PropertyID
	hotel := must[guest.Hotel](t)(c.Hotel(ctx, id, "de-AT", "EUR"))
	if hotel.PropertyID != id || hotel.Country != country {
		t.Errorf("%+v", hotel)
	}
	if a := must[guest.Availability](t)(c.Availability(ctx, id, guest.Nights{From: "2036-12-30", To: "2037-01-02", Adults: 1})); a.PropertyID != id || a.Adults != 1 {
		t.Errorf("%+v", a)
	}
	if b := must[guest.Brand](t)(c.Brand(ctx, hotel.TenantID)); b.TenantID != hotel.TenantID || b.Properties == 0 {
		t.Errorf("%+v", b)
	}
	if pins := must[guest.Pins](t)(c.SearchMap(ctx, guest.MapQuery{Country: &country})); pins.Total == 0 {
		t.Errorf("%+v", pins)
	}
	must[guest.Facets](t)(c.Facets(ctx, country, hotel.Region))
}

func testTelemetry(t *testing.T, s *site) {
	c, _ := s.browser(t)
	ctx := t.Context()
	views := must[[]string](t)(c.RecordPageViews(ctx, []guest.PageView{{Page: "home"}, {Page: "list"}}))
	c, _ = s.browser(t) // for another rate limit
	steps := must[[]string](t)(c.RecordFunnelEvents(ctx, []guest.FunnelEvent{{Step: "search"}}))
	if len(views) != 2 || len(steps) != 1 || !strings.HasPrefix(views[0], "mpv_") || !strings.HasPrefix(steps[0], "cfe_") {
		t.Errorf("%s %s", views, steps)
	}
	c, _ = s.browser(t) // for another rate limit
	_, err := c.RecordPageViews(ctx, []guest.PageView{{Page: "home"}, {Page: "other page"}})
	if e, ok := errors.AsType[*guest.Error](err); !ok || e.Errors == nil || (*e.Errors)[0].Pointer != "/items/1/page" {
		t.Errorf("%#v", err)
	}
}

func testHandoff(t *testing.T, s *site) {
	c, _ := s.browser(t)
	r, _ := s.booking(t, "booking")
	ctx := t.Context()
	request := stay()
	request.Campaign = &map[string]any{"source": "newsletter"}
	m := must[guest.Minted](t)(c.Mint(ctx, tenant, property, "", request))
	in := guest.ConsumeRequest{Token: m.Token}
	if h := must[guest.Received](t)(r.Verify(ctx, m.HandoffID, in)); h.ConsumedAt != nil || h.CheckIn != request.CheckIn {
		t.Errorf("verified: %+v", h)
	}
	h := must[guest.Received](t)(r.Consume(ctx, m.HandoffID, "a", in))
	if h.ConsumedAt == nil || h.Suspect || h.Rooms != 1 || (*h.Campaign)["source"] != "newsletter" {
		t.Errorf("consumed: %+v", h)
	}
	must[guest.Received](t)(r.Consume(ctx, m.HandoffID, "a", in))
	if _, err := r.Consume(ctx, m.HandoffID, "b", in); !errors.Is(err, guest.CodeHandoffConsumed) {
		t.Errorf("another attempt: %v", err)
	}
	if all := collect(t, c.Handoffs(ctx)); len(all) != 1 || all[0].Status != guest.StatusConsumed {
		t.Errorf("%+v", all)
	}
}

// testChallenge checks that a browser that followed an invisible link solves a challenge.
func testChallenge(t *testing.T, s *site) {
	c, w := s.browser(t)
	w.agent = "Mozilla/5.0 of a bot"
	ctx := t.Context()
	must[guest.Session](t)(c.Begin(ctx))
	honeypot, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/bff/consumer/v1/offers", nil)
	if err != nil {
		t.Fatal(err)
	}
	honeypot.Header.Set("User-Agent", w.agent)
	resp, err := http.DefaultClient.Do(honeypot)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Fatalf("the honeypot: %s", resp.Status)
	}
	sent := w.sent.Load()
	if m := must[guest.Minted](t)(c.Mint(ctx, tenant, property, "", stay())); m.Token == "" || w.sent.Load() != sent+2 {
		t.Errorf("%+v after %d requests", m, w.sent.Load()-sent)
	}
	must[guest.Minted](t)(c.Mint(ctx, tenant, property, "", stay()))
	if n := w.sent.Load(); n != sent+3 {
		t.Errorf("%d requests: there is another challenge within 15 minutes", n-sent)
	}
}

func testLostAnswers(t *testing.T, s *site) {
	c, w := s.browser(t)
	ctx := t.Context()
	must[guest.Session](t)(c.Begin(ctx))
	sent := w.sent.Load()
	w.lose = losing()
	m := must[guest.Minted](t)(c.Mint(ctx, tenant, property, "", stay()))
	if n := w.sent.Load() - sent; n != 2 {
		t.Errorf("%d requests", n)
	}
	if all := collect(t, c.Handoffs(ctx)); len(all) != 1 || all[0].HandoffID != m.HandoffID {
		t.Errorf("%+v", all)
	}
	r, wr := s.booking(t, "other")
	wr.lose = losing()
	if h := must[guest.Received](t)(r.Consume(ctx, m.HandoffID, guest.NewKey(), guest.ConsumeRequest{Token: m.Token})); h.ConsumedAt == nil || wr.sent.Load() != 2 {
		t.Errorf("%+v after %d requests", h, wr.sent.Load())
	}
	w.lose = func(*http.Request) error { return errors.New("lost") }
	c.Retries = 0
	if _, err := c.Session(ctx); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("without retries: %v", err)
	}
}

// testNestedErrors checks all errors with guest.nested_errors, including session-required, after which the client
// retries.
func testNestedErrors(t *testing.T, s *site) {
	c, w := s.browser(t)
	w.nests = true
	ctx := t.Context()
	_, err := c.AddWish(ctx, wish("x"))
	if e, ok := errors.AsType[*guest.Error](err); !ok || e.Status != http.StatusUnprocessableEntity || e.Code != guest.CodeInvalid || e.RequestID == nil {
		t.Errorf("%#v", err)
	}
	if _, err := c.SetNote(ctx, property, ""); !errors.Is(err, guest.CodeNotFound) {
		t.Error(err)
	}
}

func testErrors(t *testing.T, s *site) {
	c, _ := s.browser(t)
	ctx := t.Context()
	_, err := c.AddWish(ctx, wish("x"))
	e, ok := errors.AsType[*guest.Error](err)
	if !ok || e.Status != http.StatusUnprocessableEntity || e.Code != guest.CodeInvalid || e.RequestID == nil || e.Error() != "propertyId: expected a UUID (invalid)" {
		t.Errorf("%#v", err)
	}
	if _, err := c.SetNote(ctx, property, ""); !errors.Is(err, guest.CodeNotFound) {
		t.Error(err)
	}
	if _, err := c.Continue(ctx, "srs_01KB2Q4Y7N5M3K2H1G0F9E8D7B", 1); !errors.Is(err, guest.CodeSearchSessionExpired) {
		t.Error(err)
	}
	for _, base := range []string{"", "shop.example", "ftp://shop.example", "https://shop.example?a", "https://shop.example/bff/consumer/v1"} {
		if _, err := guest.New(base); err == nil {
			t.Errorf("base URL %q is accepted", base)
		}
	}
	if _, err := guest.NewReceiver(s.URL, nil); err == nil {
		t.Error("a receiver without tokens is accepted")
	}
	r, err := guest.NewReceiver(s.AwaitOutput(`(?m)^  internal +(\S+)$`)[1], guest.StaticToken("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(ctx, "bhd_x", guest.ConsumeRequest{Token: "x"}); !errors.Is(err, guest.CodeUnauthenticated) {
		t.Error(err)
	}
}

func testRateLimit(t *testing.T, s *site) {
	c, w := s.browser(t)
	c.MaxWait = time.Millisecond
	for until := time.Now().Add(time.Minute); time.Now().Before(until); {
		sent := w.sent.Load()
		_, err := c.RecordPageViews(t.Context(), []guest.PageView{{Page: "home"}})
		if err == nil {
			continue
		}
		e, ok := errors.AsType[*guest.Error](err)
		if !ok || e.Code != guest.CodeRateLimited || e.RetryAfter < time.Second || w.sent.Load() != sent+1 {
			t.Errorf("%v after %d requests", err, w.sent.Load()-sent)
		}
		return
	}
	t.Error("no limit")
}
