package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// TestGuestOrigins uses the API in Chromium from pages on other hosts: with the cookie on the same site, with a token
// on another site, because browsers block third-party cookies, and from an origin that the profile does not allow.
func TestGuestOrigins(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Page</title>"))
	}))
	t.Cleanup(pages.Close)
	at := func(url, host string) string { return strings.Replace(url, "127.0.0.1", host, 1) } // browsers resolve .localhost themselves
	www, foreign, forgotten := at(pages.URL, "www.example.localhost"), at(pages.URL, "www.foreign.localhost"), at(pages.URL, "old.example.localhost")
	s := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__BOTS__ENABLED=false", "HOLDFAST_GUEST__PROFILES__HOTEL__ORIGINS="+www+","+foreign)
	api := at(s.URL, "api.example.localhost") + "/bff/consumer/v1"

	const send = `const [api, wish] = arguments;
		const send = (method, path, body, headers = {}) => fetch(api + path, { method, credentials: 'include', body,
			headers: { ...body && { 'Content-Type': 'application/json' }, ...method !== 'GET' && { 'Idempotency-Key': crypto.randomUUID() }, ...headers } });
		const status = async (...args) => (await send(...args)).status;
		`
	want := func(p *chromium.Page, script, expected string) {
		t.Helper()
		if got := chromium.Run[string](t, p, send+script, api, guest.Wish(1)); got != expected {
			t.Errorf("%s: %s, want %s", script, got, expected)
		}
	}
	p := b.Open(t, www)
	want(p, `return [await status('GET', '/session'), await status('POST', '/session'), await status('POST', '/wishlist', wish), await status('PATCH', '/session/attributes', '{"a":1}')].join()`, "401,201,201,200")
	p.Go(t, www+"/again")
	want(p, `const r = await send('GET', '/wishlist'); return (await r.json()).items.length + ' ' + (r.headers.get('RateLimit') !== null) + ' ' + document.cookie`, "1 true ")
	want(p, `const r = await send('GET', '/session/attributes', undefined, { 'If-None-Match': '"x"' }); return r.status + ' ' + r.headers.get('ETag').length`, "200 18")

	p = b.Open(t, forgotten)
	want(p, `try { return String(await status('GET', '/wishlist')); } catch (e) { return e.name; }`, "TypeError")
	want(p, `try { return String(await status('DELETE', '/session/link')); } catch (e) { return e.name; }`, "TypeError")

	p = b.Open(t, foreign)
	want(p, `return [await status('POST', '/session'), await status('GET', '/session')].join()`, "201,401") // third-party cookies are blocked
	want(p, `const token = (await send('POST', '/session', undefined, { 'X-Session-Mode': 'bearer' })).headers.get('X-Session-Token');
		const proof = { Authorization: 'Bearer ' + token };
		return [await status('GET', '/session', undefined, proof), await status('POST', '/wishlist', wish, proof), (await (await send('GET', '/wishlist', undefined, proof)).json()).items.length].join()`, "200,201,1")
}
