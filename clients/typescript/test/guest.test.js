// Tests the guest client with a real server, which test/clients starts; GUEST_URL is its address.
import assert from "node:assert/strict";
import { test } from "node:test";

import { GuestError, createGuestClient } from "@holdfast/ext-storage/guest";

const { GUEST_URL: baseUrl = "" } = process.env;
assert.ok(baseUrl, "test/clients sets the environment of these tests");

const tenant = "11111111-2222-4333-8444-555555555555";
const property = "22222222-2222-4333-8444-555555555555";

/** Returns a new guest's client, which counts requests. */
function browser() {
  const wire = {
    sent: 0,
    lose: false,
    nests: false, // nests errors as guest.nested_errors does
    /** @param {Request} request */
    fetch: async (request) => {
      const response = await fetch(request);
      wire.sent++;
      if (wire.lose) {
        wire.lose = false;
        await response.arrayBuffer();
        throw new TypeError("the connection is gone");
      }
      if (wire.nests && !response.ok) {
        return new Response(`{"error":${await response.text()}}`, { status: response.status, headers: { "Content-Type": "application/json" } });
      }
      return response;
    },
  };
  return { wire, client: createGuestClient({ baseUrl, request: { headers: {} }, fetch: wire.fetch }) };
}

/** @param {Partial<GuestError>} want */
const error = (want) => (/** @type {unknown} */ e) => {
  assert.ok(e instanceof GuestError, String(e));
  assert.deepEqual(Object.fromEntries(Object.keys(want).map((k) => [k, e[/** @type {keyof GuestError} */ (k)]])), want);
  assert.ok(e.requestId);
  return true;
};

/** @param {AsyncIterable<any>} items */
async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

test("the first request begins a session", async () => {
  const { wire, client } = browser();
  const session = await client.setPreferences({ locale: "de-AT" });
  assert.deepEqual(session.preferences, { locale: "de-AT" });
  assert.equal(wire.sent, 3); // refused, session started, repeated
  assert.deepEqual(await client.session(), session);
  await client.addViewed(tenant, property);
  assert.deepEqual((await client.viewed()).map((v) => v.propertyId), [property]);
  await client.clear();
  assert.deepEqual((await client.session()).preferences, {});
});

test("a property is added to the wishlist once", async () => {
  const { wire, client } = browser();
  await client.begin();
  const sent = wire.sent;
  wire.lose = true;
  const wish = await client.addWish({ tenantId: tenant, propertyId: property, source: "list" });
  assert.equal(wire.sent, sent + 2);
  assert.equal((await client.setNote(property, "a view")).note, "a view");
  assert.deepEqual((await collect(client.wishlist())).map((w) => w.id), [wish.id]);
  await client.removeWish(property);
  assert.deepEqual(await collect(client.wishlist()), []);
});

test("a guest searches, looks and is handed over", async () => {
  const { client } = browser();
  const found = await client.search({ country: "AT" });
  const first = found.items[0];
  assert.ok(first);
  assert.equal((await client.continueSearch(found.searchId, 1)).items[0]?.propertyId, first.propertyId);
  assert.deepEqual((await client.history()).map((h) => h.searchId), [found.searchId]);
  const hotel = await client.hotel(first.propertyId, { locale: "de-AT", currency: "USD" });
  assert.deepEqual([hotel.name, hotel.locale, hotel.currency], [first.name, "de", "USD"]);
  const pins = await client.searchMap({ country: "AT", bounds: { south: hotel.latitude - 0.001, west: hotel.longitude - 0.001, north: hotel.latitude + 0.001, east: hotel.longitude + 0.001 } });
  assert.ok(pins.items.some((p) => p.propertyId === first.propertyId));
  assert.equal((await client.availability(first.propertyId, { from: "2037-03-01", to: "2037-03-03", rooms: 2 })).propertyId, first.propertyId);
  assert.ok((await client.facets(hotel.country, hotel.region)).total > 0);
  assert.ok((await client.brand(first.tenantId)).name);
  const stay = { checkIn: "2036-12-30", checkOut: "2037-01-02", adults: 2, currency: "EUR", locale: "de-AT" };
  const minted = await client.mint(first.tenantId, first.propertyId, stay);
  assert.ok(minted.redirectUrl.includes(minted.token));
  assert.deepEqual((await collect(client.handoffs())).map((h) => h.handoffId), [minted.handoffId]);
  assert.equal((await client.recordPageViews([{ page: "detail" }])).length, 1);
  assert.equal((await client.recordFunnelEvents([{ step: "handoff" }])).length, 1);
});

test("a browser that is taken for a bot solves a challenge", async () => {
  const { wire, client } = browser();
  const { items: [hotel] } = await client.search({ country: "AT" });
  assert.ok(hotel);
  await fetch(`${baseUrl}/bff/consumer/v1/offers`); // the honeypot
  const sent = wire.sent;
  wire.lose = true; // loses the response with the challenge
  const minted = await client.mint(hotel.tenantId, hotel.propertyId, { checkIn: "2036-12-30", checkOut: "2037-01-02", adults: 2, currency: "EUR", locale: "de-AT" });
  assert.equal(wire.sent, sent + 3); // lost, refused, solved
  assert.ok(minted.token);
  const { error } = await browser().client.raw.POST("/bff/consumer/v1/handoff/{tenantId}/{propertyId}", {
    params: { path: { tenantId: hotel.tenantId, propertyId: hotel.propertyId }, header: { "Idempotency-Key": "x" } },
    body: { checkIn: "2036-12-30", checkOut: "2037-01-02", adults: 2, currency: "EUR", locale: "de-AT" },
  });
  assert.equal(error?.code, "session-required"); // raw does not start a session
});

test("nested errors are understood", async () => {
  const { wire, client } = browser();
  wire.nests = true;
  await assert.rejects(client.addWish({ tenantId: tenant, propertyId: "x", source: "list" }), error({ code: "invalid", status: 422, retriable: false }));
  await assert.rejects(client.setNote(property, ""), error({ code: "not-found", status: 404 }));
});

test("errors say what is wrong", async () => {
  const { client } = browser();
  await assert.rejects(client.addWish({ tenantId: tenant, propertyId: "x", source: "list" }), error({ code: "invalid", status: 422, retriable: false }));
  await assert.rejects(client.setNote(property, ""), error({ code: "not-found", status: 404 }));
  await assert.rejects(client.recordPageViews([{ page: "home", durationMs: -1 }]), (e) => e instanceof GuestError && e.errors[0]?.pointer === "/items/0/durationMs");
  assert.throws(() => createGuestClient({ baseUrl: "shop.example", request: { headers: {} } }), TypeError);
});

test("only the session is passed on, of the headers of Node too", async () => {
  /** @type {Headers[]} */
  const sent = [];
  const headers = { cookie: "a=b; gms=x.y.z; __Host-gms=v=; gmsx=c", "user-agent": "Mozilla/5.0", "accept-language": "de", "sec-fetch-site": "cross-site", authorization: "Basic x" };
  const client = createGuestClient({ baseUrl, request: { headers }, address: "192.0.2.7", fetch: async (r) => (sent.push(r.headers), Response.json({ items: [] })) });
  await client.viewed();
  const [only] = sent;
  assert.deepEqual(
    ["Cookie", "User-Agent", "Accept-Language", "X-Forwarded-For", "Sec-Fetch-Site", "Authorization"].map((name) => only?.get(name)),
    ["gms=x.y.z; __Host-gms=v=", "Mozilla/5.0", "de", "192.0.2.7", null, null],
  );
  assert.deepEqual(client.setCookies(), []);
});

test("after an empty wishlist, requests at once begin one session", async () => {
  const { client } = browser();
  assert.deepEqual(await collect(client.wishlist()), []);
  const properties = [1, 2, 3].map((n) => `${n}${property.slice(1)}`);
  await Promise.all(properties.map((propertyId) => client.addWish({ tenantId: tenant, propertyId, source: "list" })));
  assert.deepEqual((await collect(client.wishlist())).map((w) => w.propertyId).sort(), properties);
});

test("a session that was refused for a moment begins later", async () => {
  let refused = 0;
  const client = createGuestClient({
    baseUrl,
    request: { headers: {} },
    fetch: async (request) =>
      request.url.endsWith("/session") && refused++ < 2 ? Response.json({ code: "rate-limited", retriable: true }, { status: 429, headers: { "Retry-After": "0" } }) : fetch(request),
  });
  assert.deepEqual((await client.setPreferences({ locale: "de" })).preferences, { locale: "de" });
  assert.equal(refused, 3);
});

test("a cookie that is not valid is replaced", async () => {
  const client = createGuestClient({ baseUrl, request: { headers: { cookie: "gms=gms_x" } } });
  await client.addWish({ tenantId: tenant, propertyId: property, source: "list" });
  assert.equal(client.setCookies().length, 1);
  const next = createGuestClient({ baseUrl, request: { headers: { cookie: client.setCookies()[0]?.split(";")[0] } } });
  assert.equal((await collect(next.wishlist())).length, 1);
});

test("if the first request fails, the next one begins the session", async () => {
  let fails = true;
  const client = createGuestClient({ baseUrl, retries: 0, request: { headers: {} }, fetch: (r) => (fails ? ((fails = false), Promise.reject(new TypeError("lost"))) : fetch(r)) });
  const results = await Promise.allSettled([client.session(), client.viewed(), client.addWish({ tenantId: tenant, propertyId: property, source: "list" })]);
  assert.deepEqual(results.map((r) => r.status), ["rejected", "fulfilled", "fulfilled"]);
  assert.equal(client.setCookies().length, 1);
});
