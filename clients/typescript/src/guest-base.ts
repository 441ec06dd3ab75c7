import { solve } from "./challenge.js";
import { Visit, keepsCookies, type RequestHeaders } from "./cookies.js";
import { GuestError } from "./guest-error.js";
import { newKey } from "./key.js";
import { exchange, type Untyped, type Values, type Wire } from "./raw.js";
import { isLost, retry } from "./send.js";
import { sendWithToken, type TokenStore } from "./tokens.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];

export interface GuestOptions {
  /** The origin of the server. In a browser it is the origin of the page: the session cookie needs it. */
  baseUrl: string;
  /**
   * On a server, the request of the guest's browser: the client sends its session cookie, User-Agent and Accept-Language. Make a
   * client for each request, and send setCookies() back. { headers: {} } is a guest without a browser. Browsers leave it out.
   */
  request?: { headers: RequestHeaders };
  /** On a server, the address of the guest's browser, for rate limits. `server.trusted_proxies` of Holdfast must name the server. */
  address?: string;
  /**
   * For apps and for pages of another site than the server: where the token of the session is kept, instead of a cookie. Requests do
   * not have cookies then.
   */
  tokens?: TokenStore;
  /** Maximum number of retries of a request; default 3. */
  retries?: number;
  /** Longest Retry-After, in seconds, that the client waits for; default 60. If the server asks for more, the error is thrown. */
  maxWait?: number;
  /** Sends the requests; default the global fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** What a request needs besides its path. */
export interface Sent extends CallOptions {
  path?: Values;
  query?: Values;
  body?: unknown;
  /** Send an idempotency key. */
  keyed?: boolean;
  /** The request needs no session, and an answer does not mean that there is one. */
  public?: boolean;
  /** Repeated after a lost response, the request would be refused. */
  once?: boolean;
  headers?: Record<string, string>;
}

/** The attributes of a session with their entity tag. */
export interface Tagged<T> {
  attributes: T;
  etag: string;
}

/** The types by which profiles differ. */
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

/** What the guests of every profile can do. A request that needs a session begins one. */
export class GuestBase<K extends Kinds> {
  /** @internal */
  protected readonly wire: Wire;
  readonly #limits: { retries: number; maxWait: number };
  readonly #visit: Visit | undefined;
  /** Settled when it is known whether there is a session. Until then requests are sent one by one: two would begin two sessions. */
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

  /** Returns the Set-Cookie headers that the browser of the request must get. In a browser, there are none. */
  setCookies(): string[] {
    return this.#visit?.setCookies() ?? [];
  }

  /** Begins a session, or returns the session of the cookie or the token. */
  begin({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("POST", "/session", { ...withSignal(signal) });
  }

  session({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("GET", "/session", { ...withSignal(signal) });
  }

  /** Changes those preferences that are given. */
  setPreferences(body: Schemas["PreferencesPatch"], { signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("PATCH", "/session/preferences", { body, ...withSignal(signal) });
  }

  /** Deletes the data of the session and begins another one. */
  async clear({ signal }: CallOptions = {}): Promise<void> {
    await this.send("POST", "/session/clear", { keyed: true, ...withSignal(signal) });
  }

  /** Returns what the front end keeps with the session, with the entity tag for patchAttributes. */
  attributes<T extends object = Schemas["Attributes"]>({ signal }: CallOptions = {}): Promise<Tagged<T>> {
    return this.#tagged("GET", { ...withSignal(signal) });
  }

  /**
   * Changes the attributes by RFC 7396: members replace those of the same name, null removes them. With ifMatch, attributes that have
   * changed since are refused with attributes-changed; a lost response is not repeated then, because the change may have been made.
   */
  patchAttributes<T extends object = Schemas["Attributes"]>(patch: Patch<T>, { ifMatch, signal }: CallOptions & { ifMatch?: string } = {}): Promise<Tagged<T>> {
    const condition = ifMatch === undefined ? {} : { once: true, headers: { "If-Match": ifMatch } };
    return this.#tagged("PATCH", { body: patch, ...condition, ...withSignal(signal) });
  }

  async #tagged<T>(method: string, sent: Sent): Promise<Tagged<T>> {
    const { data, response } = await this.#deliver<T>(method, "/session/attributes", sent);
    return { attributes: data, etag: response.headers.get("ETag") ?? "" };
  }

  /** Signs a user of the site in: what the guest has is merged with what the user keeps. The site has signed the token. */
  signIn(token: string, { signal }: CallOptions = {}): Promise<Schemas["Linked"]> {
    return this.send("POST", "/session/link", { body: { token }, keyed: true, ...withSignal(signal) });
  }

  /** Signs the user out in this browser, and begins a session of a guest. */
  async signOut({ signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/session/link", { ...withSignal(signal) });
  }

  /** Returns the sessions of the user who has signed in, at most 100. */
  async userSessions({ signal }: CallOptions = {}): Promise<Schemas["UserSession"][]> {
    return (await this.send<Schemas["UserSessionList"]>("GET", "/user/sessions", { ...withSignal(signal) })).items;
  }

  /** Ends a session of the user, such as in a lost phone. */
  async endUserSession(sessionId: string, { signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/user/sessions/{sessionId}", { path: { sessionId }, ...withSignal(signal) });
  }

  /** Ends all sessions of the user but this one. */
  async endOtherSessions({ signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/user/sessions", { ...withSignal(signal) });
  }

  /** Returns the items that the guest has looked at, the last one first. */
  async viewed({ signal }: CallOptions = {}): Promise<K["viewed"][]> {
    return (await this.send<{ items: K["viewed"][] }>("GET", "/session/recently-viewed", { ...withSignal(signal) })).items;
  }

  /** Begins a search session and returns its first page. */
  search(body: K["searchQuery"], { signal }: CallOptions = {}): Promise<K["results"]> {
    return this.send("POST", "/search", { body, ...withSignal(signal) });
  }

  /** Returns a page of a search session, from 1. */
  continueSearch(srsId: string, page: number, { signal }: CallOptions = {}): Promise<K["results"]> {
    return this.send("GET", "/search/{srsId}", { path: { srsId }, query: { page }, ...withSignal(signal) });
  }

  /** Returns the searches of the guest, the last one first. */
  async history({ signal }: CallOptions = {}): Promise<K["searched"][]> {
    return (await this.send<{ items: K["searched"][] }>("GET", "/session/history", { ...withSignal(signal) })).items;
  }

  /** Yields the wishlist, newest first. */
  wishlist({ signal }: CallOptions = {}): AsyncGenerator<K["wish"], void, void> {
    return this.#pages("/wishlist", signal, true); // empty without a session, and begins none
  }

  /** Adds an item to the wishlist. An item that is there already does not change. */
  addWish(body: K["wishRequest"], { signal }: CallOptions = {}): Promise<K["wish"]> {
    return this.send("POST", "/wishlist", { body, keyed: true, ...withSignal(signal) });
  }

  async removeWish(item: string, { signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/wishlist/{item}", { path: { item }, keyed: true, ...withSignal(signal) });
  }

  /** Yields the handoffs of the session, newest first. */
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
   * Sends a request, and again after a temporary refusal or a lost connection. Requests are safe to repeat: if they are not
   * by themselves, they have an idempotency key, which stays the same, or are sent `once`. Without a session, it begins one first.
   *
   * @internal
   */
  protected async send<T>(method: string, path: string, sent: Sent): Promise<T> {
    return (await this.#deliver<T>(method, path, sent)).data;
  }

  #deliver<T>(method: string, path: string, sent: Sent): Promise<{ data: T; response: Response }> {
    const header: Record<string, string> = { ...sent.headers, ...(sent.keyed ? { "Idempotency-Key": newKey() } : {}) };
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
            throw new GuestError(begun.response, begun.error); // the next attempt begins one
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

  /** Runs the first request alone. If it fails, the next one is the first. */
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

export function withSignal(signal: AbortSignal | undefined): CallOptions {
  return signal ? { signal } : {};
}
