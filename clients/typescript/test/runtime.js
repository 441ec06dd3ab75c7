// What a server does with the clients, in any runtime: Node, Deno, Bun and edge runtimes run it. It imports nothing of Node.
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

/** A browser: it keeps the cookies that a server sends to it. */
class Browser {
  /** @type {Map<string, string>} */
  cookies = new Map([["theme", "dark"], ["gms_other", "x"]]);

  /** The headers of its next request, for a page that another site links to. */
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
 * A server renders pages, each request with a client of its own; then the browser goes on with the same session.
 * @param {string} baseUrl
 */
async function render(baseUrl) {
  const one = new Browser();
  const first = createSiteClient({ baseUrl, request: { headers: one.headers } });
  // Without a session, requests at once begin one.
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

  // What a page does by itself: fetch with the cookies of the browser.
  const response = await fetch(`${baseUrl}/bff/consumer/v1/wishlist`, { headers: { Cookie: one.headers.get("Cookie") ?? "" } });
  equal((await response.json()).items.length, 3, "wishlist in the browser");
}

/**
 * A shop hands a cart over.
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
  equal((await client.recordPageViews([{ page: "detail", itemId: "sku-1" }])).length, 1, "page views");
  equal((await client.recordFunnelEvents([{ step: "handoff", itemId: "sku-1" }])).length, 1, "funnel events");
  await client.removeWish("sku-4711");
  equal(await collect(client.wishlist()), [], "wishlist");
}

/**
 * A hotel search hands a guest over; the booking site verifies the token.
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

/** Without a request, guests of a server would share a session. */
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
 * Runs everything, and throws if something is wrong.
 * @param {Record<string, string | undefined>} env
 */
export async function run({ SHOP_URL = "", SIGNED_URL = "", BASE_URL = "", INSTALL = "", TOKEN = "" }) {
  refuse();
  await render(SHOP_URL);
  await shop(SHOP_URL);
  await hotel(SIGNED_URL);
  const records = createClient({ baseUrl: BASE_URL, install: INSTALL, token: TOKEN }).namespace("life");
  const key = crypto.randomUUID();
  await records.put(key, { dark: true });
  equal((await records.get(key))?.value, { dark: true }, "record");
  await records.delete(key);
}
