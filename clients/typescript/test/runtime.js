// Tests the clients on a server, in Node, Deno, Bun and edge runtimes. It must not import Node modules.
import { createClient } from "@holdfast/ext-storage";
import { GuestError, createGuestClient, createSiteClient } from "@holdfast/ext-storage/guest";
import { createHandoffVerifier } from "@holdfast/ext-storage/handoff";

const tenant = "11111111-2222-4333-8444-555555555555";
const property = "22222222-2222-4333-8444-555555555555";

/** @type {(is: unknown, want: unknown, what: string) => void} */
const equal = (is, want, what) => {
  if (JSON.stringify(is) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(is)}, want ${JSON.stringify(want)}`);
};

/** @template T @param {AsyncIterable<T>} items */
async function collect(items) {
  /** @type {T[]} */
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/** A browser that stores cookies. */
class Browser {
  /** @type {Map<string, string>} */
  cookies = new Map([["theme", "dark"], ["gms_other", "x"]]);

  /** The headers of its next request, as if another site linked to the page. */
  get headers() {
    const cookie = Array.from(this.cookies, ([name, value]) => `${name}=${value}`).join("; ");
    return new Headers({ Cookie: cookie, "User-Agent": chrome, "Accept-Language": "de-AT", "Sec-Fetch-Site": "cross-site" });
  }

  /** @param {string[]} lines */
  take(lines) {
    for (const line of lines) {
      const [pair = ""] = line.split(";");
      const at = pair.indexOf("=");
      this.cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
  }
}

/**
 * A server renders pages, with a new client for each request; then the browser continues the session.
 * @param {string} baseUrl
 */
async function render(baseUrl) {
  const one = new Browser();
  const first = createSiteClient({ baseUrl, request: { headers: one.headers } });
  // Concurrent requests without a session start only one.
  await Promise.all(["a", "b", "c"].map((itemId) => first.addWish({ itemId })));
  equal(first.setCookies().length, 1, "cookies of a new session");
  one.take(first.setCookies());

  const two = new Browser();
  const other = createSiteClient({ baseUrl, request: two });
  await other.addWish({ itemId: "other" });
  two.take(other.setCookies());

  const [ofOne, ofTwo] = await Promise.all([one, two].map((b) => collect(createSiteClient({ baseUrl, request: b }).wishlist())));
  equal(ofOne?.map((w) => w.itemId).sort(), ["a", "b", "c"], "wishlist of the first guest");
  equal(ofTwo?.map((w) => w.itemId), ["other"], "wishlist of the second guest");

  // A page calls fetch with the browser's cookies.
  const response = await fetch(`${baseUrl}/bff/consumer/v1/wishlist`, { headers: { Cookie: one.headers.get("Cookie") ?? "" } });
  equal((await response.json()).items.length, 3, "wishlist in the browser");
}

/**
 * A shop mints a handoff with a cart.
 * @param {string} baseUrl
 */
async function shop(baseUrl) {
  /** @typedef {{ items: { itemId: string, quantity: number }[] }} Cart */
  /** @type {import("@holdfast/ext-storage/guest").SiteClient<Cart>} */
  const client = createSiteClient({ baseUrl, request: new Browser(), address: "192.0.2.7" });
  const wish = await client.addWish({ itemId: "sku-4711", quantity: 2 });
  equal([wish.itemId, wish.quantity, wish.tenantId], ["sku-4711", 2, tenant], "wish");
  equal((await client.changeWish("sku-4711", { quantity: 3, note: "gift" })).quantity, 3, "quantity");
  await client.addViewed("sku-1");
  equal((await client.viewed()).map((v) => v.itemId), ["sku-1"], "viewed");
  const payload = { items: (await collect(client.wishlist())).map((w) => ({ itemId: w.itemId, quantity: w.quantity ?? 1 })) };
  const minted = await client.mint(tenant, "cart-1", { payload });
  if (!minted.redirectUrl.includes(minted.token)) throw new Error(`redirectUrl ${minted.redirectUrl}`);
  equal((await collect(client.handoffs())).map((h) => [h.itemId, h.payload]), [["cart-1", payload]], "handoffs");
  equal((await client.mint(tenant, "cart-1", { payload, ifOpen: "keep" })).token, minted.token, "kept");
  const tap = () => client.mint(tenant, "cart-1", { payload }, { key: 'form-"7\\' });
  const [first, second] = [await tap(), await tap()];
  equal([first.handoffId === second.handoffId, first.handoffId === minted.handoffId], [true, false], "a form that is sent twice");
  equal((await collect(client.handoffs())).map((h) => h.status), ["open", "voided"], "statuses");
  equal((await client.recordPageViews([{ page: "detail", itemId: "sku-1" }])).length, 1, "page views");
  equal((await client.recordFunnelEvents([{ step: "handoff", itemId: "sku-1" }])).length, 1, "funnel events");
  await client.removeWish("sku-4711");
  equal(await collect(client.wishlist()), [], "wishlist");
}

/**
 * Quantities, conditions and item IDs that need escaping.
 * @param {string} baseUrl
 */
async function lists(baseUrl) {
  const client = createSiteClient({ baseUrl, request: new Browser() });
  /** @type {(call: Promise<unknown>) => Promise<GuestError>} */
  const refused = (call) => call.then(() => Promise.reject(new Error("not refused")), (e) => (e instanceof GuestError ? e : Promise.reject(e)));
  for (const item of ["a/b", "%2F", "?q#x", "a b", "...", "😀", "e\u0301", "שלום", "ä".repeat(128)]) {
    const one = await client.add(item);
    const three = await client.add(item, 2, { ifNoneMatch: '"stale"' });
    equal([three.itemId, three.quantity, three.id], [item, 3, one.id], "1 and 2");
    const over = await refused(client.add(item, 1, { max: 3 }));
    equal([over.code, over.message.includes("the limit is 3")], ["quantity-limit", true], "beyond the limit");
    const stale = await refused(client.changeWish(item, { quantity: 1 }, { ifMatch: one.etag }));
    equal([stale.code, stale.etag], ["wishlist-changed", three.etag], "stale");
    const set = await client.changeWish(item, { quantity: 1 }, { ifMatch: three.etag });
    equal((await refused(client.removeWish(item, { ifMatch: three.etag }))).code, "wishlist-changed", "remove");
    await client.removeWish(item, { ifMatch: set.etag });
    const missing = await refused(client.changeWish(item, { quantity: 1 }, { ifMatch: "*" }));
    equal([missing.code, missing.etag], ["wishlist-changed", undefined], "missing");
  }
  const { items, etag } = await client.list();
  equal(items, [], "list");
  await client.add("sku-1", 1, { ifMatch: etag });
  equal((await refused(client.clear({ ifMatch: etag }))).code, "wishlist-changed", "clear");
  await client.clear({ ifMatch: (await client.list()).etag });
  for (const item of [".", ".."]) {
    await client.removeWish(item).then(
      () => Promise.reject(new Error(`${item} was sent`)),
      (e) => equal(e instanceof RangeError, true, "dots"),
    );
  }
}

/**
 * A shop with a catalogue.
 * @param {string} baseUrl
 */
async function browse(baseUrl) {
  /** @typedef {{ itemId: string, name: string }} Product */
  /** @type {import("@holdfast/ext-storage/guest").SiteClient<unknown, { criteria: { text?: string, category?: string }, item: Product, answers: { product: Product } }>} */
  const client = createSiteClient({ baseUrl, request: new Browser() });
  const found = await client.search({ criteria: { category: "toys" }, pageSize: 1 });
  equal([found.items.map((i) => i.name), found.total, found.page, found.nextPage], [["toys 1"], 2, 1, 2], "results");
  equal(found.query.criteria, { category: "toys" }, "query");
  const second = await client.continueSearch(found.searchId, 2);
  equal([second.items.map((i) => i.name), second.nextPage], [["toys 2"], null], "the second page");
  equal((await client.history()).map((h) => [h.searchId, h.query.criteria.category]), [[found.searchId, "toys"]], "history");
  // @ts-expect-error: a member that the criteria do not have
  const refused = await client.search({ criteria: { color: "red" } }).catch((e) => e);
  equal(refused instanceof GuestError && refused.errors[0]?.pointer, "/criteria/color", "criteria that do not match the schema");
  equal((await client.catalogue("product", ["sku-1"], { locale: "de" })).name, "/products/sku-1 de", "product");
  // @ts-expect-error: an upstream that the profile does not have
  const missing = await client.catalogue("shelf", ["a/b"]).catch((e) => e);
  equal(missing instanceof GuestError && missing.code, "not-found", "an upstream that does not exist");
}

/**
 * A hotel search mints a handoff; the booking site verifies the token.
 * @param {string} baseUrl
 */
async function hotel(baseUrl) {
  const client = createGuestClient({ baseUrl, request: new Browser() });
  const { propertyId } = await client.addWish({ tenantId: tenant, propertyId: property, source: "list" });
  equal((await client.hotel(propertyId, { locale: "de" })).propertyId, property, "hotel");
  const minted = await client.mint(tenant, property, { checkIn: "2036-12-30", checkOut: "2037-01-02", adults: 2 });
  const verifier = createHandoffVerifier({ keySet: `${baseUrl}/bff/consumer/v1/tenants/${tenant}/jwks.json`, issuer: "https://guests.example", tenant });
  equal((await verifier.verify(minted.token)).handoffId, minted.handoffId, "handoff");
  const refused = await client.setNote("x", "").catch((e) => e);
  equal(refused instanceof GuestError && refused.code, "not-found", "refusal");
}

/**
 * Returns a user token, signed like a site's.
 * @param {string} secret
 * @param {string} user
 */
async function userToken(secret, user) {
  const encode = (/** @type {Uint8Array} */ bytes) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
  const text = (/** @type {string} */ s) => new TextEncoder().encode(s);
  const iat = Math.floor(Date.now() / 1000);
  const claims = [{ alg: "HS256" }, { sub: user, aud: "holdfast-guest", iat, exp: iat + 60 }].map((part) => encode(text(JSON.stringify(part)))).join(".");
  const key = await crypto.subtle.importKey("raw", text(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return `${claims}.${encode(new Uint8Array(await crypto.subtle.sign("HMAC", key, text(claims))))}`;
}

/** An app that stores a token, and may lose the next response. */
class App {
  /** @type {string | null} */
  token = null;
  loses = false;
  sent = 0;

  /** @param {string} baseUrl */
  client(baseUrl) {
    const tokens = { load: async () => this.token, save: async (/** @type {string} */ token) => void (this.token = token) };
    return createSiteClient({
      baseUrl,
      tokens,
      fetch: async (request) => {
        this.sent++;
        if (request.headers.has("Cookie")) throw new Error("an app has sent a cookie");
        const response = await fetch(request);
        if (response.headers.has("Set-Cookie")) throw new Error("an app has got a cookie");
        if (!this.loses) return response;
        this.loses = false;
        await response.arrayBuffer();
        throw new TypeError("lost");
      },
    });
  }
}

/**
 * A user signs in on a phone and in a browser, which share attributes.
 * @param {string} baseUrl
 * @param {string} secret
 */
async function account(baseUrl, secret) {
  const phone = new App();
  const app = phone.client(baseUrl);
  await Promise.all(["p", "q"].map((itemId) => app.addWish({ itemId })));
  const asGuest = phone.token;
  equal((await collect(app.wishlist())).length, 2, "wishlist of the app");

  /** @typedef {{ theme?: string, seen?: string[] }} Kept */
  /** @type {import("@holdfast/ext-storage/guest").Tagged<Kept>} */
  const first = await app.patchAttributes({ theme: "dark", seen: ["b-7"] });
  equal(first.attributes, { seen: ["b-7"], theme: "dark" }, "attributes");
  equal(await app.attributes(), first, "attributes and tag");
  equal((await app.patchAttributes({ seen: null }, { ifMatch: first.etag })).attributes, { theme: "dark" }, "attributes after a patch");
  const refused = await app.patchAttributes({ theme: "light" }, { ifMatch: first.etag }).catch((e) => e);
  equal(refused instanceof GuestError && [refused.code, refused.status], ["attributes-changed", 412], "patch of changed attributes");
  const { etag: ifMatch } = await app.attributes();
  const sent = phone.sent;
  phone.loses = true;
  const lost = await app.patchAttributes({ seen: ["x"] }, { ifMatch }).catch((e) => e);
  equal([lost instanceof TypeError || lost, phone.sent - sent], [true, 1], "lost patch");
  equal((await app.session()).attributes, { seen: ["x"], theme: "dark" }, "attributes of the session");

  const user = `u-${crypto.randomUUID()}`;
  phone.loses = true;
  equal(await app.signIn(await userToken(secret, user)), { added: 2, changed: 0, dropped: 0 }, "sign-in");
  if (!phone.token?.startsWith("gus_") || phone.token === asGuest) throw new Error("the token was not replaced");
  equal((await app.session()).userId, user, "user");
  const wrong = await app.signIn(await userToken("x".repeat(32), user)).catch((e) => e);
  equal(wrong instanceof GuestError && wrong.code, "user-token-invalid", "wrong token");

  const laptop = new Browser();
  const page = createSiteClient({ baseUrl, request: laptop });
  await page.addWish({ itemId: "q" });
  equal(await page.signIn(await userToken(secret, user)), { added: 0, changed: 0, dropped: 1 }, "sign-in in a browser");
  laptop.take(page.setCookies());
  const again = createSiteClient({ baseUrl, request: laptop });
  equal((await collect(again.wishlist())).map((w) => w.itemId).sort(), ["p", "q"], "wishlist of the user");
  equal((await again.attributes()).attributes, { seen: ["x"], theme: "dark" }, "attributes of the user");
  const sessions = await again.userSessions();
  equal(sessions.map((s) => s.current).sort(), [false, true], "sessions of the user");
  await again.endUserSession(sessions.find((s) => !s.current)?.sessionId ?? "");
  const ended = await app.userSessions().catch((e) => e);
  equal(ended instanceof GuestError && ended.code, "not-signed-in", "an ended session");
  equal(await collect(app.wishlist()), [], "wishlist after the end");
  await app.signIn(await userToken(secret, user));
  await again.endOtherSessions();
  equal((await again.userSessions()).length, 1, "sessions after the end of the others");
  await again.signOut();
  equal((await again.session()).userId, undefined, "user after the sign-out");
}

/** Without a request, all guests on a server would share a session. */
function refuse() {
  try {
    createGuestClient({ baseUrl: "http://127.0.0.1" });
  } catch (e) {
    equal(e instanceof TypeError, true, "error");
    return;
  }
  throw new Error("a client without a request was made");
}

/**
 * Runs all tests, and throws on a failure.
 * @param {Record<string, string | undefined>} env
 */
export async function run({ SHOP_URL = "", USER_SECRET = "", SIGNED_URL = "", BASE_URL = "", INSTALL = "", TOKEN = "" }) {
  refuse();
  await render(SHOP_URL);
  await shop(SHOP_URL);
  await lists(SHOP_URL);
  await browse(SHOP_URL);
  await account(SHOP_URL, USER_SECRET);
  await hotel(SIGNED_URL);
  const records = createClient({ baseUrl: BASE_URL, install: INSTALL, token: TOKEN }).namespace("life");
  const key = crypto.randomUUID();
  await records.put(key, { dark: true });
  equal((await records.get(key))?.value, { dark: true }, "record");
  await records.delete(key);
}
