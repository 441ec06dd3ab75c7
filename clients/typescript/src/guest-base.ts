import { solve } from "./challenge.js";
import { Visit, keepsCookies, type RequestHeaders } from "./cookies.js";
import { GuestError } from "./guest-error.js";
import { newKey } from "./key.js";
import { exchange, type Untyped, type Values, type Wire } from "./raw.js";
import { isLost, retry } from "./send.js";
import { sendWithToken, type TokenStore } from "./tokens.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];

/** How to reach the server. */
export interface GuestOptions {
  /** The server's origin. In a browser it must be the page's origin, for the session cookie. */
  baseUrl: string;
  /**
   * Only on a server: the request from the guest's browser. The client forwards its session cookie, User-Agent and Accept-Language.
   * Create a client for each request, and send setCookies() back. Use { headers: {} } for a guest without a browser.
   */
  request?: { headers: RequestHeaders };
  /** Only on a server: the browser's IP address, for rate limits. Requires this server in Holdfast's `server.trusted_proxies`. */
  address?: string;
  /**
   * For apps and for pages of another site: stores the session token, which replaces the cookie. Requests are sent without cookies.
   */
  tokens?: TokenStore;
  /** Maximum retries per request; default 3. */
  retries?: number;
  /** Longest Retry-After, in seconds, that the client waits for; default 60. If it is longer, the client throws the error. */
  maxWait?: number;
  /** Sends the requests; default the global fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

/** Options for each call. */
export interface CallOptions {
  /** Aborts the request, and the waiting before a retry. The call then throws the signal's reason. */
  signal?: AbortSignal;
}

/** Options for minting a handoff. */
export interface MintOptions extends CallOptions {
  /**
   * The attempt's idempotency key, e.g. from a form, so that the form mints once even if it is sent twice: 1 to 255 printable ASCII
   * characters. By default, each call is a new attempt.
   */
  key?: string;
}

/** Options for a wishlist change. If the condition does not hold, the call throws `wishlist-changed` with the current `etag`. */
export interface GuardOptions extends CallOptions {
  /** Change only if this is the current entity tag, e.g. the `etag` that `list()` returned; "*" if the entry exists. */
  ifMatch?: string;
  /** Change only if this is not the current entity tag; "*" if the entry does not exist. */
  ifNoneMatch?: string;
}

/** A request without its path. */
export interface Sent extends CallOptions {
  path?: Values;
  query?: Values;
  body?: unknown;
  /** Send an idempotency key: true for a new key, or this key. */
  keyed?: boolean | string;
  /** The request needs no session, and its success does not prove that a session exists. */
  public?: boolean;
  /** Do not repeat the request after a lost response: it would be refused. */
  once?: boolean;
  headers?: Record<string, string>;
}

/** Session attributes with their ETag. */
export interface Tagged<T> {
  attributes: T;
  /** With quotes, as `ifMatch` expects it. */
  etag: string;
}

/** The types that differ between profiles. */
export interface Kinds {
  wish: unknown;
  wishRequest: unknown;
  viewed: unknown;
  searchQuery: unknown;
  results: unknown;
  searched: unknown;
  handoff: unknown;
  pageView: unknown;
  funnelEvent: unknown;
}

const root = "/bff/consumer/v1";

/**
 * Operations for all profiles. A request that needs a session starts one. Methods throw a GuestError if the server refuses, and a
 * TypeError if it cannot be reached.
 */
export class GuestBase<K extends Kinds> {
  /** @internal */
  protected readonly wire: Wire;
  readonly #limits: { retries: number; maxWait: number };
  readonly #visit: Visit | undefined;
  /** Whether a session exists for certain. Until then requests run one by one: two would start two sessions. */
  #known: boolean;
  #first: Promise<unknown> | undefined;

  /** @internal */
  constructor({ baseUrl, request, address, tokens, retries = 3, maxWait = 60, fetch = (r) => globalThis.fetch(r) }: GuestOptions) {
    if (typeof baseUrl !== "string" || !/^https?:\/\/[^/?#]+[^?#]*$/.test(baseUrl) || baseUrl.includes(root)) {
      throw new TypeError(`baseUrl ${JSON.stringify(baseUrl)}: expected http:// or https:// and a host, without ${root}`);
    }
    if (request && tokens) {
      throw new TypeError("request and tokens: expected one of them, because the session is proven by a cookie or by a token");
    }
    if (!request && !tokens && !keepsCookies()) {
      throw new TypeError("request: on a server, expected the request of the guest's browser, or { headers: {} } for a guest without one. Make a client for each request");
    }
    this.#limits = { retries, maxWait };
    const visit = request && new Visit(request.headers, address);
    this.#visit = visit;
    this.#known = visit?.hasSession ?? false;
    this.wire = { baseUrl, credentials: tokens ? "omit" : "include", stringify: JSON.stringify, fetch };
    if (tokens) {
      this.wire.fetch = (r) => sendWithToken(tokens, r, fetch);
    } else if (visit) {
      this.wire.fetch = async (r) => {
        const response = await fetch(visit.dress(r));
        visit.keep(response);
        return response;
      };
    }
  }

  /** Returns the Set-Cookie headers to send to the request's browser. Empty in a browser. */
  setCookies(): string[] {
    return this.#visit?.setCookies() ?? [];
  }

  /** Starts a session, or returns the session of the cookie or token. */
  begin({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("POST", "/session", { ...withSignal(signal) });
  }

  /** Returns the session with its preferences. Without a session it starts one. */
  session({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("GET", "/session", { ...withSignal(signal) });
  }

  /** Changes the given preferences. */
  setPreferences(body: Schemas["PreferencesPatch"], { signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("PATCH", "/session/preferences", { body, ...withSignal(signal) });
  }

  /** Deletes the session's data and starts a new session. */
  async clear(options: GuardOptions = {}): Promise<void> {
    await this.send("POST", "/session/clear", { keyed: true, ...guarded(options) });
  }

  /** Returns the attributes that the front end stores in the session, with the ETag for patchAttributes. */
  attributes<T extends object = Schemas["Attributes"]>({ signal }: CallOptions = {}): Promise<Tagged<T>> {
    return this.#tagged("GET", { ...withSignal(signal) });
  }

  /**
   * Merges into the attributes by RFC 7396; null removes a member. With ifMatch, it fails with attributes-changed if the attributes
   * have changed, and does not retry after a lost response, because the change may have been made.
   */
  patchAttributes<T extends object = Schemas["Attributes"]>(patch: Patch<T>, { ifMatch, signal }: CallOptions & { ifMatch?: string } = {}): Promise<Tagged<T>> {
    const condition = ifMatch === undefined ? {} : { once: true, headers: { "If-Match": ifMatch } };
    return this.#tagged("PATCH", { body: patch, ...condition, ...withSignal(signal) });
  }

  async #tagged<T>(method: string, sent: Sent): Promise<Tagged<T>> {
    const { data, response } = await this.#deliver<T>(method, "/session/attributes", sent);
    return { attributes: data, etag: response.headers.get("ETag") ?? "" };
  }

  /** Signs a site user in with a token signed by the site, and merges the guest's data with the user's data. */
  signIn(token: string, options: GuardOptions = {}): Promise<Schemas["Linked"]> {
    return this.send("POST", "/session/link", { body: { token }, keyed: true, ...guarded(options) });
  }

  /** Signs the user out in this browser and starts a guest session. */
  async signOut({ signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/session/link", { ...withSignal(signal) });
  }

  /** Returns the signed-in user's sessions, at most 100. */
  async userSessions({ signal }: CallOptions = {}): Promise<Schemas["UserSession"][]> {
    return (await this.send<Schemas["UserSessionList"]>("GET", "/user/sessions", { ...withSignal(signal) })).items;
  }

  /** Ends a user session, e.g. on a lost phone. */
  async endUserSession(sessionId: string, { signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/user/sessions/{sessionId}", { path: { sessionId }, ...withSignal(signal) });
  }

  /** Ends the user's other sessions. */
  async endOtherSessions({ signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/user/sessions", { ...withSignal(signal) });
  }

  /** Returns the items that the guest viewed, latest first. */
  async viewed({ signal }: CallOptions = {}): Promise<K["viewed"][]> {
    return (await this.send<{ items: K["viewed"][] }>("GET", "/session/recently-viewed", { ...withSignal(signal) })).items;
  }

  /** Starts a search session and returns its first page. */
  search(body: K["searchQuery"], { signal }: CallOptions = {}): Promise<K["results"]> {
    return this.send("POST", "/search", { body, ...withSignal(signal) });
  }

  /** Returns a page from a search session; the first page is 1. */
  continueSearch(srsId: string, page: number, { signal }: CallOptions = {}): Promise<K["results"]> {
    return this.send("GET", "/search/{srsId}", { path: { srsId }, query: { page }, ...withSignal(signal) });
  }

  /** Returns the guest's searches, latest first. */
  async history({ signal }: CallOptions = {}): Promise<K["searched"][]> {
    return (await this.send<{ items: K["searched"][] }>("GET", "/session/history", { ...withSignal(signal) })).items;
  }

  /** Yields the wishlist, newest first. */
  wishlist({ signal }: CallOptions = {}): AsyncGenerator<K["wish"], void, void> {
    return this.#pages("/wishlist", signal, true); // without a session it is empty, and does not start one
  }

  /** Returns the whole wishlist, newest first, with its entity tag for `ifMatch`. */
  async list({ signal }: CallOptions = {}): Promise<{ items: K["wish"][]; etag: string }> {
    const sent = { public: true, headers: { "If-None-Match": '"-"' }, ...withSignal(signal) }; // a hotel search sends the tag only with a condition
    const { data, response } = await this.#deliver<{ items: K["wish"][] }>("GET", "/wishlist", sent);
    return { items: data.items, etag: response.headers.get("ETag") ?? "" };
  }

  /**
   * Adds an item to the wishlist, and returns the entry. If it is there, its quantity grows; without quantities, the entry does not
   * change. At most 100 entries. The condition is about the list.
   */
  addWish(body: K["wishRequest"], options: GuardOptions = {}): Promise<K["wish"]> {
    return this.send("POST", "/wishlist", { body, keyed: true, ...guarded(options) });
  }

  /** Removes an item from the wishlist. A missing item is not an error. */
  async removeWish(item: string, options: GuardOptions = {}): Promise<void> {
    await this.send("DELETE", "/wishlist/{item}", { path: { item }, keyed: true, ...guarded(options) });
  }

  /** Yields the session's handoffs, newest first. */
  handoffs({ signal }: CallOptions = {}): AsyncGenerator<K["handoff"], void, void> {
    return this.#pages("/handoff", signal, false);
  }

  /** Publishes 1 to 50 page views and returns their IDs. */
  async recordPageViews(items: K["pageView"][], { signal }: CallOptions = {}): Promise<string[]> {
    return (await this.send<{ ids: string[] }>("POST", "/telemetry/page-view", { body: { items }, keyed: true, ...withSignal(signal) })).ids;
  }

  /** Publishes 1 to 50 steps towards a handoff and returns their IDs. */
  async recordFunnelEvents(items: K["funnelEvent"][], { signal }: CallOptions = {}): Promise<string[]> {
    return (await this.send<{ ids: string[] }>("POST", "/telemetry/funnel", { body: { items }, keyed: true, ...withSignal(signal) })).ids;
  }

  async *#pages<T>(path: string, signal: AbortSignal | undefined, lenient: boolean): AsyncGenerator<T, void, void> {
    for (let query: Values = {}; ; ) {
      const page = await this.send<{ items: T[]; nextCursor: string | null }>("GET", path, { query, public: lenient, ...withSignal(signal) });
      yield* page.items;
      if (page.nextCursor === null) {
        return;
      }
      query = { cursor: page.nextCursor };
    }
  }

  /**
   * Sends a request, and retries after a temporary error or a lost connection. Requests are idempotent, carry an idempotency key,
   * or are marked `once`. It starts a session if necessary.
   *
   * @internal
   */
  protected async send<T>(method: string, path: string, sent: Sent): Promise<T> {
    return (await this.#deliver<T>(method, path, sent)).data;
  }

  #deliver<T>(method: string, path: string, sent: Sent): Promise<{ data: T; response: Response }> {
    const header: Record<string, string> = { ...sent.headers, ...(sent.keyed ? { "Idempotency-Key": quoted(sent.keyed) } : {}) };
    const init: Untyped = { params: { path: sent.path, query: sent.query, header }, signal: sent.signal ?? null };
    if (sent.body !== undefined) {
      init.body = sent.body;
    }
    let begins = path !== "/session" || method !== "POST";
    const attempt = async (): Promise<{ data: T; response: Response }> => {
      for (;;) {
        const { data, error, response } = await exchange(this.wire, method, root + path, init);
        if (response.ok) {
          return { data: data as T, response };
        }
        const e = new GuestError(response, error);
        if (e.code === "session-required" && begins) {
          const begun = await exchange(this.wire, "POST", `${root}/session`, { signal: init.signal ?? null });
          if (!begun.response.ok) {
            throw new GuestError(begun.response, begun.error); // the next attempt retries this
          }
          begins = false;
        } else if (e.challenge && !header["X-Challenge-Token"]) {
          header["X-Challenge-Token"] = await solve(e.challenge, sent.signal);
        } else {
          throw e;
        }
      }
    };
    const run = (): Promise<{ data: T; response: Response }> =>
      retry(this.#limits, sent.signal, attempt, (e) => {
        if (e instanceof GuestError) {
          return e.retriable && (!sent.once || e.code === "rate-limited") ? (e.retryAfter ?? 0) : undefined;
        }
        return isLost(e) && !sent.once ? 0 : undefined;
      });
    return sent.public ? run() : this.#inTurn(run);
  }

  /** Runs requests one by one until the first success. */
  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    while (!this.#known && this.#first) {
      await this.#first.catch(() => undefined);
    }
    if (this.#known) {
      return run();
    }
    const first = run();
    this.#first = first;
    try {
      const result = await first;
      this.#known = true;
      return result;
    } finally {
      this.#first = undefined;
    }
  }
}

/** A merge patch of T. */
export type Patch<T> = { [K in keyof T]?: (NonNullable<T[K]> extends unknown[] ? T[K] : NonNullable<T[K]> extends object ? Patch<NonNullable<T[K]>> : T[K]) | null };

/** Quotes a key as an RFC 9651 string. */
function quoted(key: string | true): string {
  return `"${key === true ? newKey() : key.replace(/["\\]/g, "\\$&")}"`;
}

/** Returns the request options for a condition and a signal. */
export function guarded({ ifMatch, ifNoneMatch, signal }: GuardOptions): { headers: Record<string, string> } & CallOptions {
  const headers = { ...(ifMatch === undefined ? {} : { "If-Match": ifMatch }), ...(ifNoneMatch === undefined ? {} : { "If-None-Match": ifNoneMatch }) };
  return { headers, ...withSignal(signal) };
}

/** Leaves the member out without a signal, as exactOptionalPropertyTypes requires. */
export function withSignal(signal: AbortSignal | undefined): CallOptions {
  return signal ? { signal } : {};
}
